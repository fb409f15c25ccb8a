// The language of --filter (engine/query/filter.h): a parser by recursive
// descent and the evaluation of its tree. tests/engine/query/filter_cases.json
// has the cases that this parser and the command line's pass.
//
// The grammar, from the weakest to the strongest:
//
//   or          and {"or" and}
//   and         not {"and" not}
//   not         "not" not | "(" or ")" | comparison
//   comparison  field operator value | term operator term
//               | field ["not"] "in" "(" value … ")" | field "is" ["not"] "null"
//   term        product {("+" | "-") product}
//   product     operand {("*" | "/" | "%") operand}
//   operand     number | field | "(" term ")"
//
// The kind of the field decides how its value is read (literal). An unknown
// name is an error when the filter is parsed, not when it is evaluated. The
// tree is {or: […]}, {and: […]}, {not: …} or a test {field, op, values, regex} or
// {left, op, right}, whose terms are numbers, {field}, or {sign, a, b}.

const MAX_DEPTH = 100;
const MAX_BYTES = 65536;
const SYMBOLS = ['==', '!=', '<=', '>=', '<', '>', '~', '(', ')', ',', '=', '!'];
const END_OF_WORD = ' \t\r\n<>=!~(),';
const ARITHMETIC = '+-*/%';
const COMPARES = ['==', '!=', '<=', '>=', '<', '>'];
const FUNCTIONS = ['min', 'max', 'last', 'at', 'spark'];
const DAY = 86400e3;

export class FilterError extends Error {}

const same = (a, b) => a.toLowerCase() === b.toLowerCase();

export function parseNumber(text) {
  if (same(text, 'nan')) return NaN;
  const special = /^([+-]?)(inf|infinity)$/i.exec(text);
  if (special) return special[1] === '-' ? -Infinity : Infinity;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : null;
}

// Returns an integer beyond 2^53, which a number cannot hold, as a BigInt.
function parseExactly(text) {
  const number = parseNumber(text);
  const whole = /^[+-]?\d+$/.test(text) && !Number.isSafeInteger(number);
  return whole ? BigInt(text.replace('+', '')) : number;
}

function parseSeconds(text) {
  const units = {ms: 1e-3, s: 1, m: 60, h: 3600, d: 86400, w: 604800};
  const found = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)?$/.exec(text);
  return found ? Number(found[1]) * (units[found[2]] ?? 1) : null;
}

// Date.parse() takes February 30.
function isDate(text) {
  const date = new Date(text + 'T00:00:00Z');
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

// Milliseconds since 1970 (UTC without an offset) of RFC 3339, or null.
function parseTime(text) {
  const pattern = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/;
  if (!pattern.test(text) || !isDate(text.slice(0, 10))) return null;
  let whole = text.replace(' ', 'T');
  if (whole.length > 10 && !/(Z|[+-]\d\d:\d\d)$/.test(whole)) whole += 'Z';
  const time = Date.parse(whole);
  return Number.isNaN(time) ? null : time;
}

// Edit distance (Levenshtein).
function distance(a, b) {
  let row = Array.from({length: b.length + 1}, (_, j) => j);
  for (let i = 1; i <= a.length; ++i) {
    const next = [i];
    for (let j = 1; j <= b.length; ++j) {
      next.push(Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] !== b[j - 1])));
    }
    row = next;
  }
  return row[b.length];
}

/** "; did you mean 'RUNNING'?" if a word is near, else nothing. */
export function didYouMean(text, words) {
  let best = Math.max(2, Math.floor(text.length / 3)) + 1;
  let found = '';
  for (const word of words) {
    const far = distance(text, word);
    if (far < best) [best, found] = [far, word];
  }
  return found ? `; did you mean '${found}'?` : '';
}

class Tokens {
  constructor(text) {
    const bytes = new TextEncoder().encode(text).length;
    if (bytes > MAX_BYTES) {
      throw new FilterError(`the expression has ${bytes} bytes; the maximum is ${MAX_BYTES}`);
    }
    this.text = text;
    this.next = this.read(0);
  }

  fail(what, at, hint) {
    throw new FilterError(`${what} at character ${at + 1}` + (hint ? `; ${hint}` : ''));
  }

  expected(what, at, hint) { this.fail(`expected ${what}`, at, hint); }

  read(from) {
    const text = this.text;
    while (from < text.length && ' \t\r\n'.includes(text[from])) ++from;
    if (from === text.length) return {kind: 'end', text: '', begin: from, end: from};
    if (text[from] === '"' || text[from] === "'") {
      const end = text.indexOf(text[from], from + 1);
      if (end < 0) this.expected('a closing quote', from);
      return {kind: 'quoted', text: text.slice(from + 1, end), begin: from, end: end + 1};
    }
    const symbol = SYMBOLS.find((one) => text.startsWith(one, from));
    if (symbol) return {kind: 'symbol', text: symbol, begin: from, end: from + symbol.length};
    let end = from;
    while (end < text.length && !END_OF_WORD.includes(text[end])) ++end;
    return {kind: 'word', text: text.slice(from, end), begin: from, end};
  }

  take() {
    const token = this.next;
    this.next = this.read(token.end);
    return token;
  }

  is(symbol) { return this.next.kind === 'symbol' && this.next.text === symbol; }
  takeIf(symbol) { return this.is(symbol) ? Boolean(this.take()) : false; }
  isWord(word) { return this.next.kind === 'word' && same(this.next.text, word); }
  takeWord(word) { return this.isWord(word) ? Boolean(this.take()) : false; }
  isValue() { return this.next.kind === 'word' || this.next.kind === 'quoted'; }
  isSign() {
    const {kind, text} = this.next;
    return kind === 'word' && text.length === 1 && ARITHMETIC.includes(text);
  }
  compares() { return this.next.kind === 'symbol' && COMPARES.includes(this.next.text); }
  isNumber() { return this.next.kind === 'word' && parseNumber(this.next.text) !== null; }
}

const isNumeric = (kind) => !['text', 'texts', 'time'].includes(kind);

function hintFor(token) {
  if (token.kind === 'symbol' && token.text === '=') return 'write == for equal';
  if (token.kind === 'symbol' && token.text === '!') return "write 'not' for the opposite";
  if (token.kind === 'word' && token.text.length > 1 && ARITHMETIC.includes(token.text[0])) {
    return `to calculate, write blanks around ${token.text[0]}`;
  }
  if (token.text === '&&' || token.text === '&') return "write 'and'";
  if (token.text === '||' || token.text === '|') return "write 'or'";
  if (token.kind === 'symbol' && token.text === ')') return "no '(' is open for it";
  if (token.kind === 'word' && (same(token.text, 'like') || same(token.text, 'matches'))) {
    return 'write ~ and a regular expression in quotes';
  }
  return '';
}

class Parser {
  // `resolve(name)`: {kind, words} of a field by its text; throws FilterError.
  constructor(text, {resolve, now}) {
    this.tokens = new Tokens(text);
    this.resolve = resolve;
    this.now = now;
  }

  parse() {
    const tree = this.parseOr(0);
    const rest = this.tokens.next;
    if (rest.kind !== 'end') this.tokens.expected("'and' or 'or'", rest.begin, hintFor(rest));
    return tree;
  }

  parseOr(depth) { return this.parseChain('or', () => this.parseAnd(depth)); }
  parseAnd(depth) { return this.parseChain('and', () => this.parseNot(depth)); }

  parseChain(word, parsePart) {
    const parts = [parsePart()];
    while (this.tokens.takeWord(word)) parts.push(parsePart());
    return parts.length === 1 ? parts[0] : {[word]: parts};
  }

  parseNot(depth) {
    const {tokens} = this;
    const opens = tokens.is('(');
    if ((!opens && !tokens.isWord('not')) || (opens && this.opensTerm())) {
      return this.parseComparison();
    }
    this.checkDepth(depth);
    tokens.take();
    if (!opens) return {not: this.parseNot(depth + 1)};
    const inner = this.parseOr(depth + 1);
    if (!tokens.takeIf(')')) {
      tokens.expected("')', 'and' or 'or'", tokens.next.begin, hintFor(tokens.next));
    }
    return inner;
  }

  checkDepth(depth) {
    if (depth < MAX_DEPTH) return;
    this.tokens.fail(`more than ${MAX_DEPTH} levels of parentheses and 'not'`,
        this.tokens.next.begin);
  }

  // True if the next "(" belongs to a term: behind the one that closes it, a
  // sign or a comparison follows.
  opensTerm() {
    this.terms ??= this.findTerms();
    return this.terms.has(this.tokens.next.begin);
  }

  findTerms() {
    const found = new Set();
    const open = [];
    try {
      for (const ahead = this.ahead(); ahead.next.kind !== 'end';) {
        const token = ahead.take();
        if (token.kind === 'symbol' && token.text === '(') open.push(token.begin);
        if (token.kind !== 'symbol' || token.text !== ')' || open.length === 0) continue;
        const begin = open.pop();
        if (ahead.isSign() || ahead.compares()) found.add(begin);
      }
    } catch (error) {
      // A quote is not closed, which the parser reports in its turn.
    }
    return found;
  }

  // A copy of the tokens, to look ahead.
  ahead() { return Object.assign(Object.create(Tokens.prototype), this.tokens); }

  // Runs `look` with the tokens behind the next operand; false if none follows.
  behindOperand(look) {
    const {tokens} = this;
    this.tokens = this.ahead();
    try {
      if (this.tokens.isNumber()) this.tokens.take(); else this.parseField();
      return look(this.tokens);
    } catch (error) {
      return false;
    } finally {
      this.tokens = tokens;
    }
  }

  parseTerms() {
    const {tokens} = this;
    const left = this.parseSum(0);
    const token = tokens.next;
    if (!tokens.compares()) {
      tokens.expected('an operator (== != < <= > >= + - * / %)', token.begin, hintFor(token));
    }
    tokens.take();
    return {left, op: token.text, right: this.parseSum(0)};
  }

  parseSum(depth) {
    return this.parseSigns('+-', () => this.parseSigns('*/%', () => this.parseOperand(depth)));
  }

  parseSigns(signs, parsePart) {
    const {tokens} = this;
    let term = parsePart();
    while (tokens.isSign() && signs.includes(tokens.next.text)) {
      const sign = tokens.take().text;
      term = {sign, a: term, b: parsePart()};
    }
    return term;
  }

  parseOperand(depth) {
    const {tokens} = this;
    const {begin} = tokens.next;
    if (tokens.is('(')) {
      this.checkDepth(depth);
      tokens.take();
      const term = this.parseSum(depth + 1);
      if (!tokens.takeIf(')')) {
        tokens.expected("')' or one of + - * / %", tokens.next.begin, hintFor(tokens.next));
      }
      return term;
    }
    if (tokens.isNumber()) return parseNumber(tokens.take().text);
    if (!tokens.isValue()) tokens.expected('a number or name', begin, hintFor(tokens.next));
    const name = this.parseField();
    const field = {name, ...this.resolveAt(name, begin)};
    if (!isNumeric(field.kind)) {
      tokens.expected('a number', begin,
          `'${name}' is a ${field.kind === 'time' ? 'time' : 'text'}`);
    }
    return {field};
  }

  parseField() {
    const {tokens} = this;
    if (!tokens.isValue()) tokens.expected('a name', tokens.next.begin);
    const word = tokens.take();
    if (word.kind === 'quoted' || !tokens.is('(')) return word.text;
    const close = tokens.text.indexOf(')', word.end);
    if (tokens.next.begin === word.end && close >= 0) {
      const whole = tokens.text.slice(word.begin, close + 1);
      if (this.knows(whole)) {
        while (tokens.next.begin <= close && tokens.next.kind !== 'end') tokens.take();
        return whole;
      }
    }
    return this.parseFunction(word);
  }

  knows(name) {
    try {
      this.resolve(name);
      return true;
    } catch (error) {
      return false;
    }
  }

  parseFunction(word) {
    const {tokens} = this;
    if (!FUNCTIONS.includes(word.text)) {
      tokens.fail(`unknown function '${word.text}'`, word.begin,
          'available: ' + FUNCTIONS.join(', '));
    }
    if (word.text === 'spark') {
      tokens.expected('a value', word.begin, 'spark() only draws a column of --columns');
    }
    tokens.take();
    if (!tokens.isValue()) tokens.expected('the name of a metric', tokens.next.begin);
    let inner = tokens.take().text;
    if (word.text === 'at') {
      const hint = 'write at(METRIC, LENGTH), such as at(loss, 300)';
      if (!tokens.takeIf(',')) tokens.expected("','", tokens.next.begin, hint);
      const length = parseNumber(tokens.next.text);
      if (!(length > 0) || !Number.isFinite(length)) {
        tokens.expected('a length above 0', tokens.next.begin, hint);
      }
      tokens.take();
      inner += ',' + String(length);
    }
    if (!tokens.takeIf(')')) tokens.expected("')'", tokens.next.begin);
    return `${word.text}(${inner})`;
  }

  parseComparison() {
    const {tokens} = this;
    const begin = tokens.next.begin;
    const first = tokens.next;
    const unknownNumber = tokens.isNumber() && !this.knows(first.text);
    if (tokens.is('(') || this.behindOperand((ahead) =>
      ahead.isSign() || (unknownNumber && ahead.compares()))) {
      return this.parseTerms();
    }
    const name = this.parseField();
    const field = {name, ...this.resolveAt(name, begin)};
    const negated = tokens.takeWord('not');
    const at = tokens.next.begin;
    if (tokens.takeWord('in')) {
      const test = {field, op: 'in', values: this.parseList(field)};
      return negated ? {not: test} : test;
    }
    if (negated) tokens.expected("'in'", at);
    if (!tokens.takeWord('is')) return this.parseOperator(field, first);
    const inverse = tokens.takeWord('not');
    if (!tokens.takeWord('null')) {
      tokens.expected(inverse ? "'null'" : "'null' or 'not null'", tokens.next.begin);
    }
    return inverse ? {not: {field, op: 'null'}} : {field, op: 'null'};
  }

  resolveAt(name, begin) {
    try {
      return this.resolve(name);
    } catch (error) {
      throw new FilterError(`at character ${begin + 1}: ${error.message}`);
    }
  }

  // `first`: the token of the field, which is taken.
  parseOperator(field, first) {
    const {tokens} = this;
    const token = tokens.next;
    const known = ['==', '!=', '<=', '>=', '<', '>', '~'];
    if (token.kind !== 'symbol' || !known.includes(token.text)) {
      tokens.expected('an operator (== != < <= > >= ~ in is)', token.begin, hintFor(token));
    }
    tokens.take();
    const op = token.text;
    const isText = field.kind === 'text' || field.kind === 'texts';
    if (isText && '<=>='.includes(op) && op !== '==') {
      tokens.expected('==, !=, ~ or in', token.begin, `'${field.name}' is a text`);
    }
    if (op === '~') return {field, op, regex: this.parseRegex()};
    const isTerm = isNumeric(field.kind) &&
        (tokens.is('(') || this.behindOperand((ahead) => ahead.isSign()));
    if (isTerm) {
      const number = first.kind === 'quoted' ? null : parseNumber(field.name);
      return {left: number ?? {field}, op, right: this.parseSum(0)};
    }
    return {field, op, values: [this.parseValue(field, op)]};
  }

  parseRegex() {
    const {tokens} = this;
    if (!tokens.isValue()) {
      tokens.expected('a regular expression', tokens.next.begin, 'write it in quotes');
    }
    const token = tokens.take();
    try {
      // RE2, which the command line uses, has flags within the expression.
      const ignoresCase = token.text.startsWith('(?i)');
      return ignoresCase ? new RegExp(token.text.slice(4), 'ui') : new RegExp(token.text, 'u');
    } catch (error) {
      return tokens.fail(`invalid regular expression '${token.text}'`, token.begin);
    }
  }

  parseList(field) {
    const {tokens} = this;
    const hint = 'write in (VALUE, VALUE)';
    if (!tokens.takeIf('(')) tokens.expected("'('", tokens.next.begin, hint);
    const values = [];
    do values.push(this.parseValue(field, 'in')); while (tokens.takeIf(','));
    if (!tokens.takeIf(')')) tokens.expected("',' or ')'", tokens.next.begin, hint);
    return values;
  }

  parseValue(field, op) {
    const {tokens} = this;
    if (!tokens.isValue()) tokens.expected('a value', tokens.next.begin, hintFor(tokens.next));
    return this.literal(tokens.take(), field, op);
  }

  literal(token, field, op) {
    const {tokens} = this;
    const {text} = token;
    const number = token.kind === 'quoted' ? null : parseExactly(text);
    switch (field.kind) {
      case 'time': return this.timeLiteral(token, field);
      case 'duration': {
        const seconds = number ?? (token.kind === 'quoted' ? null : parseSeconds(text));
        if (seconds === null) {
          tokens.expected('a duration', token.begin,
              'write seconds, or a number with m, h or d such as 10m');
        }
        return {value: seconds, text};
      }
      case 'number':
      case 'any':
        if (number !== null) return {value: number, text};
        if (field.kind === 'number' || ['<', '<=', '>', '>='].includes(op)) {
          tokens.expected('a number', token.begin, `'${field.name}' ` +
              (field.kind === 'number' ? 'is a number' : 'has an order only where it is a number'));
        }
        return {value: text, text};
      default:
        if (field.words?.length && !field.words.some((word) => same(word, text))) {
          tokens.fail(`'${field.name}' is never '${text}', found`, token.begin,
              'it is one of ' + field.words.join(', ') + didYouMean(text.toUpperCase(), field.words));
        }
        return {value: number ?? text, text};
    }
  }

  timeLiteral(token, field) {
    const time = parseTime(token.text);
    if (time !== null) {
      return {value: {time}, text: token.text, wholeDay: token.text.length <= 10};
    }
    const ago = token.text.startsWith('-') ? parseSeconds(token.text.slice(1)) : null;
    if (ago === null) {
      this.tokens.expected('a time', token.begin, `'${field.name}' is a time; write ` +
          '2026-11-20, 2026-11-20T07:35:44Z, or -2d for two days ago');
    }
    return {value: {time: this.now - ago * 1000}, text: token.text};
  }
}

/**
 * Parses a filter. `context.resolve(name)` returns a field's {kind, words} and
 * throws FilterError for an unknown one; `context.now` is in milliseconds.
 * Throws FilterError with the position.
 */
export function parseFilter(text, context) {
  return new Parser(text, context).parse();
}

// A row's value is null, a number, a BigInt, a text, {time}, or an array of texts.
const isNull = (value) => value === null || value === undefined ||
    Number.isNaN(value) || (Array.isArray(value) && value.length === 0);

const isNumber = (value) => typeof value === 'number' || typeof value === 'bigint';

const valueText = (value) => typeof value === 'object' && value !== null && 'time' in value ?
    new Date(value.time).toISOString() : String(value);

function equals(actual, wanted) {
  if (actual === null || actual === undefined) return false;
  if (Array.isArray(actual)) return actual.some((one) => equals(one, wanted));
  const {value} = wanted;
  // == compares a BigInt with a number exactly.
  if (isNumber(actual) && isNumber(value)) return actual == value;
  if (actual.time !== undefined && value.time !== undefined) {
    return wanted.wholeDay ? actual.time >= value.time && actual.time < value.time + DAY :
      actual.time === value.time;
  }
  // A number is compared with a text as it was written: 7.10 is not 7.1.
  return same(valueText(actual), wanted.text);
}

function isOrdered(actual, op, wanted) {
  let [left, right] = [actual, wanted.value];
  if (left?.time !== undefined && right?.time !== undefined) {
    const fromEnd = op === '>' || op === '<=';
    [left, right] = [left.time, right.time + (wanted.wholeDay && fromEnd ? DAY - 1e-3 : 0)];
  }
  if (!isNumber(left) || !isNumber(right)) return false;
  switch (op) {
    case '<': return left < right;
    case '<=': return left <= right;
    case '>': return left > right;
    default: return left >= right;
  }
}

function holds({op, values, regex}, actual) {
  switch (op) {
    case '==':
    case 'in': return values.some((one) => equals(actual, one));
    case '!=': return !values.some((one) => equals(actual, one));
    case 'null': return isNull(actual);
    case '~':
      if (Array.isArray(actual)) return actual.some((one) => regex.test(one));
      return !isNull(actual) && regex.test(valueText(actual));
    default: return isOrdered(actual, op, values[0]);
  }
}

// The value of a term, or null without one. A division by zero has none.
function calculate(term, lookup) {
  if (typeof term === 'number') return term;
  if (term.field) {
    const value = lookup(term.field.name);
    return isNumber(value) ? Number(value) : null;
  }
  // Sums of thousands of operands nest as deep on the left.
  const signs = [];
  let first = term;
  for (; first.sign; first = first.a) signs.push(first);
  let value = calculate(first, lookup);
  while (signs.length > 0 && value !== null) {
    const {sign, b} = signs.pop();
    const right = calculate(b, lookup);
    value = right === null ? null : calculateOne(value, sign, right);
  }
  return value;
}

function calculateOne(a, sign, b) {
  switch (sign) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return a * b;
    case '/': return b === 0 ? null : a / b;
    default: {  // the rest has the sign of the divisor
      const rest = a % b;
      return b === 0 ? null : rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
    }
  }
}

function termsHold({left, op, right}, lookup) {
  const [a, b] = [calculate(left, lookup), calculate(right, lookup)];
  if (isNull(a) || isNull(b)) return false;
  if (op === '==') return a === b;
  return op === '!=' ? a !== b : isOrdered(a, op, {value: b});
}

/** True if the filter holds; `lookup(name)` returns the value of a field. */
export function matches(tree, lookup) {
  if (tree.or) return tree.or.some((part) => matches(part, lookup));
  if (tree.and) return tree.and.every((part) => matches(part, lookup));
  if (tree.not) return !matches(tree.not, lookup);
  if (tree.left !== undefined) return termsHold(tree, lookup);
  return holds(tree, lookup(tree.field.name));
}
