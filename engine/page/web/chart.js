// A chart: a canvas for marks, one above it for the trial that is pointed at,
// and an SVG for axes. A kind of plot derives from Chart and draws.
//
// State tells charts about changes. A chart in sight then draws itself once in
// the next animation frame, however many changes there were (redraw); one out of
// sight when it comes into sight. Pointing at a
// trial draws on the upper canvas only (drawHovered), because there may be very
// many marks on the lower one, and only in charts that are in sight. `marks`
// has where each trial was drawn; the pointer and the keyboard find trials
// there. While a brush or a name is dragged, `busy` stops drawing: it would
// remove the element that is dragged. A plot with zoomedScales() has boxes: what
// is dragged over, or chosen by keys, is kept in the state as a range of each axis.
//
// The other half are helpers that the plots share: elements, scales, axes,
// colors.

/* global d3 */

import {ranksOf, robustRange} from './analysis.js';
import {dropNoise, formatNumber, lengthText, textOf} from './data.js';
import {fileName, savePicture} from './picture.js';

// Colors come from style.css, one set for each theme: c0 to c7, that people with
// any color vision tell apart, and ranks, a path from the best trial to the worst.
export const CATEGORIES = 8;

let several = false;  // experiments
let categories = [];
let ranks = () => '';

/** Reads the colors of the theme. */
export function readTheme() {
  categories = Array.from({length: CATEGORIES}, (_, i) => themeColor('c' + i));
  ranks = d3.interpolateRgbBasis(themeColor('ranks').split(',').map((one) => one.trim()));
}

/** Color of a category, for a canvas, and for a style, where it follows the theme. */
export const categoryColor = (i) => categories[i % CATEGORIES];
export const categoryStyle = (i) => `var(--c${i % CATEGORIES})`;

/** Color of a share: 0 for the best, 1 for the worst. The best stands out from the background. */
export const rankColor = (share) => ranks(share);

/** Color of an experiment among several; a neutral one for the only one. */
export const experimentColor = (index) => (several ? categoryColor(index) : themeColor('one'));
export const experimentStyle = (index) => (several ? categoryStyle(index) : 'var(--one)');

/** Opacity of many marks: few are opaque, so that their contrast is that of their color. */
export const opacityOf = (count, many) => (count <= 200 ? 1 : many);

/** Decides what experimentColor() returns. */
export function setExperiments({experiments}) { several = experiments.length > 1; }

/** Name of a metric by its key. */
export const nameOf = (key) => key.slice(key.indexOf('/') + 1);

/** Names of the places on an axis of choices; null for numbers. */
export const namesOf = (axis) => (axis.choices.length ? axis.choices.map(textOf) : null);

/** "1 trial", "3 trials" */
export const countOf = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** What the experiments count in `batches`: "batches", or "batches or epochs" if they differ. */
export function lengthLabel({experiments}) {
  const units = new Set(experiments.map(({unit = 'batches'}) => unit));
  return [...units].sort().join(' or ') || 'batches';
}

/** A sentence if the experiments count different units; empty otherwise. */
export function differentUnits({experiments}) {
  const units = new Map();
  for (const {unit = 'batches', id} of experiments) units.set(unit, [...units.get(unit) || [], id]);
  if (units.size < 2) return '';
  const texts = [...units].map(([unit, ids]) => (ids.length === 1 ?
    `experiment ${ids[0]} counts ${unit}` : `experiments ${ids.join(', ')} count ${unit}`));
  return `Units differ: ${texts.join('; ')}.`;
}

/** True if the epochs of an experiment's values are known. */
export const knowsEpochs = ({unit, metrics}) => unit === 'epochs' || Boolean(metrics.batches_per_epoch);

/** "val_loss (smaller is better)", for an axis. */
export function metricLabel(state, key) {
  return `${shorten(nameOf(key), 28)}${key.startsWith('training/') ? ' of training' : ''} ` +
      `(${state.direction(key) ? '' : 'if '}` +
      `${state.smallerIsBetter(key) ? 'smaller' : 'larger'} is better)`;
}

/** A sentence if the better direction of a metric must be chosen first; empty otherwise. */
export const directionNote = (state, keys, then) => {
  const unknown = keys.filter((key) => !state.direction(key)).map(nameOf);
  return unknown.length ? `No search says whether small or large ${unknown.join(' and ')} is better: ` +
      `choose, and ${then}.` : '';
};

/** "y: smaller is better", to be chosen where no search says it. */
export function directionChoice(state, key, label) {
  const direction = state.direction(key);
  if (!state.hasChoiceOfDirection(key)) {
    return element('span', {class: 'fact'}, `${label}${direction} is better`);
  }
  return choice(label + 'better is', [['', '?'], ['smaller', 'smaller'], ['larger', 'larger']],
      direction, (chosen) => state.setDirection(key, chosen));
}

/** The colors of ranks, for a legend. */
const rankKeys = () => ['best', element('span', {class: 'gradient'}), 'worst'];

export function rankLegend() { return element('div', {class: 'legend fact'}, ...rankKeys()); }

/** The hyperparameter that colors trials, by the reader's choice; null for none. */
export function colorAxis(state) {
  return state.data.axes.find((one) => 'hp.' + one.name === state.get('color')) || null;
}

// Colors of trials by a hyperparameter: by name, or along its range.
function colorsOf(axis) {
  const none = themeColor('ghost');
  if (axis.choices.length) {
    return (trial) => (Number.isNaN(axis.values[trial]) ? none : categoryColor(axis.values[trial]));
  }
  const share = scaleOf(axis, 0, 1);
  return (trial) => {
    const value = axis.values[trial];
    return Number.isNaN(value) || (share.base && value <= 0) ? none : rankColor(share(value));
  };
}

/** Fills a legend with what colors mean: the chosen hyperparameter, else ranks if `ranks`. */
export function showColors(legend, state, ranks) {
  const axis = colorAxis(state);
  if (!axis) return patchChildren(legend, ranks ? rankKeys() : []);
  const name = shorten(axis.name, 40);
  if (!axis.choices.length) {
    return patchChildren(legend, [`${name}: ${formatNumber(axis.low)}`, element('span', {class: 'gradient'}),
      formatNumber(axis.high)]);
  }
  return patchChildren(legend, [`${name}:`, ...axis.choices.slice(0, 24).map((one, i) => {
    const key = element('span', {class: 'key'}, element('span', {class: 'swatch block'}), shorten(textOf(one), 40));
    key.firstChild.style.background = categoryStyle(i);
    return key;
  }), ...(axis.choices.length > 24 ? [`and ${axis.choices.length - 24} more`] : [])]);
}

/** A unit in which `seconds` is a number that is easily read: {name, seconds}. */
export function timeUnit(seconds) {
  if (seconds < 600) return {name: 'seconds', seconds: 1};
  if (seconds < 3 * 3600) return {name: 'minutes', seconds: 60};
  if (seconds < 72 * 3600) return {name: 'hours', seconds: 3600};
  return {name: 'days', seconds: 86400};
}

const HANDLERS = ['onclick', 'onchange', 'oninput', 'onpointermove', 'onpointerleave'];

/** Creates an element with attributes and HANDLERS, and texts or elements in it. */
export function element(tag, attributes = {}, ...content) {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) created[name] = value;
    else if (value !== false && value !== null) created.setAttribute(name, value === true ? '' : value);
  }
  created.append(...content);
  return created;
}

const keyOf = (node) => node.dataset?.key;

/**
 * Makes `node` look and react as `fresh` does and changes only what differs, so
 * that focus, selections, a half-written text and a press of the mouse outlive
 * a redraw. Handlers must not refer to elements of `fresh`.
 */
export function patch(node, fresh) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== fresh.data) node.data = fresh.data;
    return;
  }
  const edited = node.value !== node.defaultValue;
  for (const {name} of [...node.attributes]) {
    if (name !== 'style' && !fresh.hasAttribute(name)) node.removeAttribute(name);
  }
  for (const {name, value} of fresh.attributes) {
    if (name !== 'style' && node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  if (node.style.cssText !== fresh.style.cssText) node.style.cssText = fresh.style.cssText;
  for (const name of HANDLERS) node[name] = fresh[name];
  if (node.type === 'checkbox') node.checked = fresh.checked;
  else if (node.tagName === 'INPUT' && !edited) node.value = fresh.value;
  const {value} = fresh;
  patchChildren(node, fresh.childNodes);
  if (node.tagName === 'SELECT') node.value = value;
}

/** Makes the children of `parent` those elements and texts; ones with a data-key are found again by it. */
export function patchChildren(parent, children) {
  const all = Array.from(children, (child) => (typeof child === 'string' ? document.createTextNode(child) : child));
  const wanted = new Set(all.map(keyOf));
  const keyed = new Map();
  for (const child of [...parent.childNodes]) {
    if (!keyOf(child)) continue;
    if (wanted.has(keyOf(child))) keyed.set(keyOf(child), child);
    else child.remove();
  }
  let at = parent.firstChild;
  for (const fresh of all) {
    const key = keyOf(fresh);
    const old = key ? keyed.get(key) : at;
    // What is drawn on a canvas cannot be compared.
    if (!old || keyOf(old) !== key || old.nodeName !== fresh.nodeName || old.nodeName === 'CANVAS') {
      parent.insertBefore(fresh, at);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else (parent.moveBefore || parent.insertBefore).call(parent, old, at);
    patch(old, fresh);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

export function themeColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
}

/** A select of [value, text] pairs. */
export function choice(label, options, value, onChange) {
  const select = element('select', {'aria-label': label, onchange: ({target}) => onChange(target.value)},
      ...options.map(([one, text]) => element('option', {value: one}, shorten(text, 80))));
  select.value = value;
  return element('label', {class: 'choice'}, label, select);
}

/** A scale from values to pixels: linear, logarithmic, or by names. */
export function scaleOf({low, high, log = false, names = null}, from, to) {
  if (names && names.length) {
    return d3.scaleLinear().domain([-0.5, names.length - 0.5]).range([from, to]);
  }
  if (!(high > low)) {  // one value: in the middle
    const pad = Math.abs(low) * 0.05 || 1;
    [low, high] = [low - pad, low + pad];
    log = log && low > 0;
  }
  const scale = log && low > 0 ? d3.scaleLog() : d3.scaleLinear();
  return scale.domain([low, high]).range([from, to]);
}

/** Range of the finite values for which `keep(i)` holds; for `log` the positive ones. */
export function rangeOf(values, keep = () => true, log = false) {
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < values.length; ++i) {
    const value = values[i];
    if (!Number.isFinite(value) || (log && value <= 0) || !keep(i)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? {low, high} : null;
}

// Powers of ten from `low` to `high`, at most `count`.
function powersOf10(low, high, count) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.ceil((last - first + 1) / count);
  const ticks = [];
  for (let exponent = first; exponent <= last; exponent += step) ticks.push(Number('1e' + exponent));
  return ticks;
}

// At most eight characters or so.
function tickText(value) {
  const size = Math.abs(value);
  if (size === 0 || (size >= 1e-3 && size < 1e6)) return formatNumber(dropNoise(value));
  return value.toExponential(3).replace(/\.?0+e/, 'e').replace('+', '').replaceAll('-', '−');
}

// Without those less than so many pixels from the one before.
function spaced(ticks, scale, pixels) {
  let last = -Infinity;
  return ticks.filter((tick) => {
    if (Math.abs(scale(tick) - last) < pixels) return false;
    last = scale(tick);
    return true;
  });
}

/** An axis of a plot with ticks that fit its length. */
export function drawAxis(svg, scale, place, {at, length, label, names = null, across = 0}) {
  const vertical = place === 'left';
  const axis = vertical ? d3.axisLeft(scale) : d3.axisBottom(scale);
  const count = Math.max(2, Math.floor(length / (vertical ? 32 : 76)));
  if (names && names.length) {
    const step = Math.ceil(names.length / Math.max(1, Math.floor(length / (vertical ? 14 : 60))));
    const [low, high] = scale.domain();
    axis.tickValues(names.map((_, i) => i).filter((i) => i % step === 0 && i > low && i < high))
        .tickFormat((i) => shorten(String(names[i]), 14));
  } else if (scale.base) {
    const [low, high] = scale.domain();
    const decades = Math.log10(high / low);
    if (decades < 1.5) axis.tickValues(spaced(d3.ticks(low, high, count), scale, vertical ? 16 : 48));
    else axis.tickValues(powersOf10(low, high, count));
    axis.tickFormat(tickText);
  } else {
    const [low, high] = scale.domain();
    axis.ticks(count).tickFormat(Math.max(-low, high) >= 1e5 ? d3.format('~s') : tickText);
  }
  const group = svg.append('g').attr('class', 'axis')
      .attr('transform', vertical ? `translate(${at},0)` : `translate(0,${at})`).call(axis);
  if (across) {
    group.selectAll('.tick line').clone().attr(vertical ? 'x2' : 'y2', across).attr('class', 'grid');
  }
  if (label) {
    const range = scale.range();
    group.append('text').attr('class', 'axis-label').text(shorten(label, 60))
        .attr('text-anchor', vertical ? 'start' : 'end')
        .attr('x', vertical ? -46 : Math.max(...range)).attr('y', vertical ? Math.min(...range) - 12 : 34);
  }
  return group;
}

export function shorten(text, length) {
  return text.length <= length ? text : text.slice(0, length - 1) + '…';
}

const MAX_TABLE = 200;  // rows

/** Base of all plots. A derived class has draw(), and find(x, y) for the pointer. */
export class Chart {
  constructor(state, {id, title, height = 300, wide = false, about = ''}) {
    this.state = state;
    this.data = state.data;
    this.height = height;
    this.margin = {top: 28, right: 16, bottom: 42, left: 58};
    this.note = element('p', {class: 'note', id: id + '-note'});
    this.controls = element('div', {class: 'controls'});
    this.canvas = element('canvas');
    this.overlay = element('canvas');
    this.svgNode = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    this.svg = d3.select(this.svgNode);
    this.svgNode.setAttribute('aria-hidden', 'true');  // the table has its numbers
    this.plot = element('div', {class: 'plot', tabindex: '0', role: 'application', 'aria-roledescription': 'plot',
      'aria-label': `${title}; arrows go through what is drawn, Enter shows a trial`, 'aria-describedby': this.note.id},
    this.canvas, this.overlay, this.svgNode);
    this.plot.style.height = height + 'px';
    this.tip = element('div', {class: 'tip', hidden: true});
    this.plot.append(this.tip);
    this.title = title;
    this.zoom = null;
    this.reset = element('button', {type: 'button', class: 'tool', hidden: true,
      'aria-label': `show all of ${title}`, onclick: () => state.setZoom(id, null)}, 'Reset zoom');
    this.tools = element('span', {class: 'tools'}, this.reset, ...['svg', 'png'].map((kind) => element('button', {
      type: 'button', class: 'tool', title: `save as ${kind.toUpperCase()}`,
      'aria-label': `save ${title} as ${kind.toUpperCase()}`, onclick: () => this.save(kind)},
    kind.toUpperCase())));
    this.card = element('section', {class: wide ? 'card wide' : 'card', id},
        element('div', {class: 'heading'}, element('h2', {}, title), this.tools),
        element('p', {class: 'about'}, about),
        this.controls, this.plot, this.note);
    this.numbers = element('div', {class: 'numbers', tabindex: '0', role: 'region', 'aria-label': 'data of ' + title});
    this.details = element('details', {class: 'data'}, element('summary', {}, 'Data'), this.numbers);
    this.details.addEventListener('toggle', () => this.drawTable());
    this.card.append(this.details);
    this.plot.addEventListener('pointermove', (event) => this.point(event));
    this.plot.addEventListener('pointerleave', () => state.keyed || this.leave());
    this.plot.addEventListener('click', (event) => this.click(event));
    this.plot.addEventListener('pointerdown', (event) => this.startBox(event));
    this.plot.addEventListener('dblclick', () => { if (this.zoom) state.setZoom(id, null); });
    this.plot.addEventListener('keydown', (event) => this.key(event));
    this.plot.addEventListener('blur', () => { state.keyed = false; this.leave(); });
    state.onChange(() => this.redraw());
    state.onHover(() => (this.inSight ? this.drawHovered() : this.stale = true));
    state.observe(this.plot, new ResizeObserver(() => this.redraw()));
    state.observe(this.plot, new IntersectionObserver((entries) => {
      this.inSight = entries[entries.length - 1].isIntersecting;
      if (!this.inSight) return;
      if (this.due) this.redraw();
      else if (this.stale) this.drawHovered();
    }, {rootMargin: '200px'}));
  }

  redraw() {
    this.due = true;
    if (!this.inSight || this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.drawNow();
    });
  }

  /** Draws what has changed, in sight or not. */
  drawNow() {
    if (!this.due || this.busy) return;  // with a drag, whose elements must stay
    this.due = false;
    this.prepare();
    this.said = '';
    this.draw();
    if (this.note.textContent !== this.said) this.note.textContent = this.said;
    this.drawn = true;
    this.drawHovered();
    this.drawTable();
  }

  // The plot as a table, if the reader has opened it.
  drawTable() {
    if (!this.details.open || !this.drawn) return;
    const {heads, rows} = this.tableOf();
    const shown = rows.slice(0, MAX_TABLE);
    patchChildren(this.numbers, [element('table', {}, element('caption', {}, rows.length > shown.length ?
      `${shown.length} of ${countOf(rows.length, 'row')}; the table of trials has all trials` : countOf(rows.length, 'row')),
    element('thead', {}, element('tr', {}, ...heads.map((head) => element('th', {scope: 'col'}, shorten(head, 60))))),
    element('tbody', {}, ...shown.map(([first, ...cells]) => element('tr', {}, element('th', {scope: 'row'}, first),
        ...cells.map((cell) => element('td', {}, cell))))))]);
  }

  /** {heads, rows}: the texts of a table of what is drawn, by default the facts on each trial. */
  tableOf() {
    const heads = ['trial', 'state'];
    const first = new Map();
    for (const mark of this.marks) if (mark[0] >= 0 && !first.has(mark[2])) first.set(mark[2], mark);
    const rows = [...first].slice(0, 100_000).sort(([, a], [, b]) => a[0] - b[0]).map(([trial, mark], n) => {
      const row = [this.data.idOf(trial), this.data.stateOf(trial)];
      if (n >= MAX_TABLE) return row;
      for (const fact of this.facts(trial, mark)) {
        const at = fact.indexOf(': ');
        const name = at < 0 ? 'value' : fact.slice(0, at);
        if (!heads.includes(name)) heads.push(name);
        row[heads.indexOf(name)] = fact.slice(at < 0 ? 0 : at + 2);
      }
      return Array.from(row, (cell) => cell ?? '–');
    });
    return {heads, rows};
  }

  /** What a file of the plot has: its marks, axes, title and legend. */
  picture() {
    const outer = this.card.parentNode?.closest('.card');  // of a slice
    return {width: this.width, height: this.height, svg: this.svgNode,
      title: `${this.title} · ${this.data.experiments.map(({id, name}) => `${id} ${name}`).join(', ')}`,
      legends: [...this.card.querySelectorAll('.legend'), ...(outer?.querySelectorAll(':scope > .legend') || [])],
      draw: (context) => {
        this.prepare();
        this.context = context;
        this.draw();
      }};
  }

  /** Saves the plot as it is seen: 'svg' or 'png'. */
  async save(kind) {
    const colors = Object.fromEntries(['card', 'text', 'quiet'].map((name) => [name, themeColor(name)]));
    await savePicture(this.picture(), kind, colors, fileName(this.data.experiments, this.card.id, kind));
    this.due = true;
    this.drawNow();
  }

  // Draws the trial that is pointed at, and nothing else: there may be very many.
  drawHovered() {
    this.stale = false;
    if (!this.drawn || this.due || this.busy) return;
    const {hovered, visible} = this.state;
    const {context} = this;
    this.context = this.overlay.getContext('2d');
    this.context.clearRect(0, 0, this.width, this.height);
    if (hovered >= 0 && visible[hovered]) this.highlight(hovered);
    this.context = context;
  }

  /** Marks a trial, over the drawing. */
  highlight(trial) {
    for (const [x, y, marked] of this.marks) if (marked === trial) this.ring(x, y);
  }

  prepare() {
    readTheme();
    setExperiments(this.data);
    const axis = colorAxis(this.state);
    this.colors = axis && colorsOf(axis);
    if (this.colorKey) showColors(this.colorKey, this.state, this.hasRanks);
    const height = this.heightNow();
    if (height !== this.height) {
      this.height = height;
      this.plot.style.height = height + 'px';
    }
    this.width = this.plot.clientWidth;
    this.scales = null;
    this.zoom = this.state.zooms()[this.card.id] || null;
    this.reset.hidden = !this.zoom;
    const ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.overlay, this.canvas]) {
      canvas.width = Math.round(this.width * ratio);  // clears it
      canvas.height = Math.round(this.height * ratio);
      canvas.style.width = this.width + 'px';
      canvas.style.height = this.height + 'px';
      this.context = canvas.getContext('2d');
      this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.svg.attr('width', this.width).attr('height', this.height);
    this.svg.selectAll('.axis, .mark').remove();
    const {top, right, bottom, left} = this.margin;
    this.box = {left, top, right: Math.max(this.width - right, left + 10),
      bottom: this.height - bottom};
  }

  /** Adds the legend of the colors of trials: by the chosen hyperparameter, or by rank if `ranks`. */
  addColorKey(ranks) {
    this.hasRanks = ranks;
    this.colorKey = element('div', {class: 'legend fact'});
    this.card.insertBefore(this.colorKey, this.note);
  }

  /** Color of a trial by the chosen hyperparameter; else the given one. */
  colorOf(trial, otherwise) { return this.colors ? this.colors(trial) : otherwise; }

  /** The height in pixels; a plot with rows has as much as they need. */
  heightNow() { return this.height; }

  /** A sentence below the plot: why it is empty, or what it leaves out. */
  say(text) { this.said = text; }

  clip() {
    const {left, top, right, bottom} = this.box;
    this.context.save();
    this.context.beginPath();
    this.context.rect(left, top, right - left, bottom - top);
    this.context.clip();
  }

  axes(x, y, labels, names = {}) {
    const {left, top, right, bottom} = this.box;
    drawAxis(this.svg, x, 'bottom', {at: bottom, length: right - left, label: labels.x, names: names.x});
    drawAxis(this.svg, y, 'left', {at: left, length: bottom - top, label: labels.y,
      names: names.y, across: right - left});
  }

  /**
   * Limits of a vertical axis for the trials' values: without outliers, unless
   * the reader wants all or a logarithm.
   */
  limits(range, lows, highs) {
    return (range && !this.state.get('log') && robustRange(lows, highs)) || range;
  }

  /**
   * Limits the scales to the box that the reader chose; without `y` only x can
   * be chosen. A box is kept in units of x that do not depend on the data: the
   * axis counts `unit` of them.
   */
  zoomedScales(x, y, unit = 1) {
    const {zoom} = this;
    this.scales = {x, y, unit, full: [x.domain(), y ? y.domain() : [0, 0]]};
    this.plot.classList.add('zoomable');
    if (!zoom) return;
    const limit = (scale, low, high) => {
      if (low < high && !(scale.base && low <= 0)) scale.domain([low, high]);
    };
    limit(x, zoom[0] / unit, zoom[1] / unit);
    if (y) limit(y, zoom[2], zoom[3]);
  }

  // Zooms to a box in pixels.
  zoomTo(left, right, top, bottom) {
    const {x, y, unit, full} = this.scales;
    const ends = [[x, left, right], [y, bottom, top]].map(([scale, from, to]) =>
      (scale ? [from, to].map((at) => scale.invert(at)) : [0, 0]));
    const all = ends.every(([low, high], i) => low <= full[i][0] && high >= full[i][1]);
    this.state.setZoom(this.card.id, all ? null : [...ends[0].map((end) => end * unit), ...ends[1]]);
  }

  // A box that is dragged; one that is almost flat is a range of one axis.
  startBox(event) {
    this.dragged = false;
    if (!this.scales || event.button !== 0 || event.pointerType === 'touch' || this.busy) return;
    const {left, right, top, bottom} = this.box;
    const place = ({clientX, clientY}) => {
      const at = this.plot.getBoundingClientRect();
      return [Math.min(Math.max(clientX - at.left, left), right), Math.min(Math.max(clientY - at.top, top), bottom)];
    };
    const start = place(event);
    const boxTo = (end) => {
      const [far, high] = [0, 1].map((i) => Math.abs(end[i] - start[i]));
      if (Math.max(far, high) < 6) return null;
      const sorted = [0, 1].map((i) => [start[i], end[i]].sort((a, b) => a - b));
      return [...(far < 10 ? [left, right] : sorted[0]), ...(high < 10 || !this.scales.y ? [top, bottom] : sorted[1])];
    };
    const ended = new AbortController();
    const context = this.overlay.getContext('2d');
    const finish = (last) => {
      ended.abort();
      if (!this.busy) return;
      this.busy = false;
      context.clearRect(0, 0, this.width, this.height);
      const box = last && boxTo(place(last));
      if (box) this.zoomTo(...box);
      else if (this.due) this.redraw();
    };
    const draw = (moved) => {
      const box = boxTo(place(moved));
      if (!box && !this.busy) return;
      if (!this.busy) this.leave();
      this.busy = this.dragged = true;
      context.clearRect(0, 0, this.width, this.height);
      if (!box) return;
      const [from, to, high, low] = box;
      context.strokeStyle = context.fillStyle = themeColor('accent');
      context.lineWidth = 1;
      context.strokeRect(from, high, to - from, low - high);
      context.globalAlpha = 0.15;
      context.fillRect(from, high, to - from, low - high);
      context.globalAlpha = 1;
    };
    const options = {signal: ended.signal};
    window.addEventListener('pointermove', draw, options);
    window.addEventListener('pointerup', finish, options);
    window.addEventListener('pointercancel', () => finish(null), options);
  }

  // + and − zoom, 0 shows everything, Shift with an arrow moves. True if it did.
  zoomByKey(event) {
    if (!this.scales || event.ctrlKey || event.metaKey || event.altKey) return false;
    const {left, right, top, bottom} = this.box;
    const [width, height] = [right - left, bottom - top];
    const part = {'+': 1 / 6, '=': 1 / 6, '-': -1 / 4}[event.key];
    const move = event.shiftKey && {ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1],
      ArrowDown: [0, 0.1]}[event.key];
    if (!this.zoom && !(part > 0)) return false;
    if (event.key === '0') this.state.setZoom(this.card.id, null);
    else if (part) {
      this.zoomTo(left + part * width, right - part * width, top + part * height, bottom - part * height);
    } else if (move) {
      this.zoomTo(left + move[0] * width, right + move[0] * width, top + move[1] * height, bottom + move[1] * height);
    } else return false;
    event.preventDefault();
    return true;
  }

  /** True for a place that a box leaves out. */
  isOutside(x, y) {
    const {left, right, top, bottom} = this.box;
    return Boolean(this.zoom) && !(x >= left && x <= right && y >= top && y <= bottom);
  }

  /** A sentence on what lies beyond such limits. */
  outlierNote({below = 0, above = 0}, noun) {
    if (this.zoom) return '';
    return [[above, 'above the axis (▲)'], [below, 'below it (▼)']].filter(([count]) => count)
        .map(([count, where]) => `${countOf(count, noun)} ${where}.`)
        .join(' ') + (below + above ? ' The scale “linear, all values” reaches them.' : '');
  }

  /** A dot, or beyond the edges an arrow; returns where it is. Outside a box there is none. */
  dot(x, y, color, radius = 3) {
    const {context, box: {left, top, right, bottom}} = this;
    if (this.isOutside(x, y)) return [NaN, NaN];
    context.fillStyle = color;
    context.beginPath();
    const [px, py] = [Math.min(Math.max(x, left), right), Math.min(Math.max(y, top), bottom)];
    if (Math.abs(px - x) < 1 && Math.abs(py - y) < 1) {
      context.arc(x, y, radius, 0, 2 * Math.PI);
    } else {
      // The tip at the edge, the base 8 pixels within.
      const [dx, dy] = [Math.sign(x - px), px === x ? Math.sign(y - py) : 0];
      context.moveTo(px, py);
      context.lineTo(px - 8 * dx - 4 * dy, py - 8 * dy - 4 * dx);
      context.lineTo(px - 8 * dx + 4 * dy, py - 8 * dy + 4 * dx);
    }
    context.fill();
    return [px, py];
  }

  cross(x, y, color) {
    const {context} = this;
    context.strokeStyle = color;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x - 3, y - 3);
    context.lineTo(x + 3, y + 3);
    context.moveTo(x + 3, y - 3);
    context.lineTo(x - 3, y + 3);
    context.stroke();
  }

  ring(x, y) {
    const {context} = this;
    context.strokeStyle = themeColor('text');
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x, y, 6, 0, 2 * Math.PI);
    context.stroke();
  }

  /** What is at this place beside trials, for the pointer. */
  describe() { return ''; }

  // Remembers where trials are drawn, for the pointer: [x, y, trial] each.
  get marks() { return this.places ||= []; }

  // The trial at this place, or -1; `found` is its mark.
  find(x, y) {
    let best = 144;  // within 12 pixels
    this.found = null;
    for (const mark of this.marks) {
      const far = (mark[0] - x) ** 2 + (mark[1] - y) ** 2;
      if (far < best) [best, this.found] = [far, mark];
    }
    return this.found ? this.found[2] : -1;
  }

  point(event) {
    if (this.state.keyed || this.busy) return;
    const box = this.plot.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const trial = this.find(x, y);
    this.pointAt(trial);
    const text = trial >= 0 ? this.textOf(trial, this.found) : this.describe(x, y);
    this.tip.hidden = !text;
    if (!text) return;
    this.showTip(text, x, y);
  }

  showTip(text, x, y) {
    this.tip.hidden = false;
    this.tip.textContent = text;
    this.tip.style.left = Math.min(x + 12, Math.max(0, this.width - 190)) + 'px';
    this.tip.style.top = Math.min(y + 12, this.height - 40) + 'px';
  }

  // Arrows go through the trials from left to right, Enter shows one.
  key(event) {
    if (event.key === 'Enter' && this.state.hovered >= 0) {
      event.preventDefault();  // the key would press the button that gets the focus
      this.state.set({trial: this.data.idOf(this.state.hovered)});
      return;
    }
    if (this.zoomByKey(event)) return;
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step || !this.marks.length) return;
    event.preventDefault();
    this.state.keyed = true;
    const first = new Map();  // mark of each trial
    for (const mark of this.marks) if (mark[0] >= 0 && !first.has(mark[2])) first.set(mark[2], mark);
    const order = [...first.values()].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const at = order.findIndex(([, , trial]) => trial === this.state.hovered);
    if (!order.length) return;
    const mark = order[(at < 0 && step < 0 ? order.length - 1 :
      at + step + order.length) % order.length];
    this.pointAt(mark[2]);
    this.state.speak(this.textOf(mark[2], mark));
    this.showTip(this.textOf(mark[2], mark), mark[0], mark[1]);
  }

  leave() {
    this.tip.hidden = true;
    this.pointAt(-1);
  }

  // Forgets only a trial that was chosen here: a plot that scrolls under a still
  // mouse must not end what the keyboard does elsewhere.
  pointAt(trial) {
    if (trial >= 0 || this.pointed === this.state.hovered) this.state.hover(trial);
    this.pointed = trial;
  }

  click(event) {
    if (this.dragged) return;
    const box = this.plot.getBoundingClientRect();
    const trial = this.find(event.clientX - box.left, event.clientY - box.top);
    if (trial >= 0) this.state.set({trial: this.data.idOf(trial)});
  }

  textOf(trial, mark) {
    return [`${this.data.idOf(trial)} · ${this.data.stateOf(trial)}`, ...this.facts(trial, mark)].join('\n');
  }

  /** Lines on the trial at a mark: what is drawn there. */
  facts(trial) {
    const {data, state} = this;
    const at = state.get('at') ? state.placeText() : 'after ' +
        lengthText(data.trials.best_batches[trial], data.experimentOf(trial).unit || 'batches');
    return [`${this.valueText(state.metric(), state.valuesOf(state.metric())[trial])} ${at}`];
  }

  valueText(key, value) { return `${shorten(nameOf(key), 60)}: ${formatNumber(value)}`; }

  hparamFact(axis, trial) { return `${axis.name}: ${this.data.hparamText(axis, trial)}`; }

  /** Sentences on values that an axis cannot show, of the trials or points counted. */
  omissions({infinite = 0, notPositive = 0}, noun = 'value') {
    return [infinite ? `${countOf(infinite, noun)} not finite, not drawn.` : '',
      notPositive ? `${countOf(notPositive, noun)} not positive, not drawn on a logarithmic scale.` : '']
        .filter(Boolean);
  }
}

/**
 * Shares by rank of the visible trials' values: 0 the best, 1 the worst, equal
 * values the same, NaN for none; and those trials from the best to the worst.
 */
export function rankShares(state, values, smaller) {
  const found = [];
  for (let i = 0; i < values.length; ++i) {
    if (state.visible[i] && Number.isFinite(values[i])) found.push(i);
  }
  const ranks = ranksOf(found.map((i) => (smaller ? values[i] : -values[i])));
  const shares = new Float64Array(values.length).fill(NaN);
  found.forEach((trial, n) => {
    shares[trial] = found.length > 1 ? (ranks[n] - 1) / (found.length - 1) : 0;
  });
  return {shares, order: found.sort((a, b) => shares[a] - shares[b] || a - b)};
}
