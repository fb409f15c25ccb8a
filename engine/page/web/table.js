// The table of trials. Only the rows in sight exist, so that its size costs
// nothing: rows have one height, so the scroll position alone says which ones
// are in sight, and each is placed by its number. TrialView, below, is the
// dialog with all that is known about one trial.

import {element, nameOf, shorten, themeColor} from './chart.js';
import {formatDuration, formatNumber, lengthText, textOf} from './data.js';
import {STATE_COLORS} from './progress.js';

const ROW_HEIGHT = 26;

// Phases of a profile, in the order of a batch.
const PHASES = ['data', 'forward', 'backward', 'exchange', 'optimizer', 'report', 'validation',
  'checkpoint', 'other'];

// "best val_accuracy", if all experiments searched for the same.
function bestLabel(data) {
  const metrics = new Set(data.experiments.map((one) => one.metric));
  return metrics.size === 1 ? 'best ' + [...metrics][0] : 'best';
}

// Columns: {name, label, text(trial), value(trial) to sort by and to copy, numeric}.
function columnsOf(data) {
  // Reads data.trials at each call: a live page replaces its columns.
  const numeric = (name, text = formatNumber) => ({name, numeric: true,
    value: (i) => data.trials[name][i], text: (i) => text(data.trials[name][i])});
  const columns = [
    {name: 'id', value: (i) => i, text: (i) => data.idOf(i)},
    {name: 'state', value: (i) => data.stateOf(i), text: (i) => data.stateOf(i)},
    {...numeric('best'), label: bestLabel(data)},
    numeric('batches'),
  ];
  for (const axis of data.axes) {
    columns.push({name: 'hp.' + axis.name, numeric: !axis.choices.length,
      value: (i) => axis.exact.get(i) ??
          (axis.choices.length ? data.axisText(axis, axis.values[i]) : axis.values[i]),
      text: (i) => data.hparamText(axis, i)});
  }
  for (const one of data.metrics) {
    if (data.experiments.every((experiment) => experiment.metric === one.name)) continue;
    const values = () => data.valuesAtBest(one.key);
    columns.push({name: one.kind === 'training' ? 'training ' + one.name : one.name, numeric: true,
      value: (i) => values()[i], text: (i) => formatNumber(values()[i])});
  }
  columns.push(numeric('seconds', formatDuration), numeric('restarts'), numeric('rung'));
  return columns;
}

export class Table {
  constructor(state) {
    this.state = state;
    this.data = state.data;
    this.columns = columnsOf(this.data);
    this.head = element('div', {class: 'row head', role: 'row'});
    this.body = element('div', {class: 'rows'});
    this.scroll = element('div', {class: 'scroll', tabindex: '0', role: 'table',
      'aria-label': 'trials'}, this.head, this.body);
    this.picker = element('details', {class: 'picker'}, element('summary', {}, 'Columns'));
    this.copied = element('span', {class: 'fact', role: 'status'});
    const copy = element('button', {type: 'button', onclick: () => this.copy()}, 'Copy as CSV');
    this.card = element('section', {class: 'card wide', id: 'trials'},
        element('h2', {}, 'Trials'), element('p', {class: 'about'},
            'Click a heading to sort, a row to see the trial; arrows and Enter do, too. Values are ' +
            'those of the best validation.'),
        element('div', {class: 'controls'}, this.picker, copy, this.copied), this.scroll);
    this.scroll.addEventListener('scroll', () => this.drawRows());
    this.scroll.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.drawRows()).observe(this.scroll);
    state.onChange(() => this.redraw());
    state.onHover(() => this.drawRows());
  }

  shownColumns() {
    const chosen = this.state.get('columns').split('|').filter(Boolean);
    if (chosen.length) return this.columns.filter((one) => chosen.includes(one.name));
    return this.columns.slice(0, 12);
  }

  sortKey() {
    const sort = this.state.get('sort') || this.firstSort();
    const name = sort.replace(/^-/, '');
    const column = this.columns.find((one) => one.name === name) || this.columns[2];
    return {column, descending: sort.startsWith('-')};
  }

  // The visible trials in order. Missing values come last in either direction.
  sorted() {
    const {column, descending} = this.sortKey();
    const sign = descending ? -1 : 1;
    const rows = [];
    for (let i = 0; i < this.data.trials.count; ++i) if (this.state.visible[i]) rows.push(i);
    const values = rows.map((i) => column.value(i));
    const order = rows.map((_, n) => n);
    const missing = (value) => value === '–' || Number.isNaN(value);
    order.sort((a, b) => {
      const [left, right] = [values[a], values[b]];
      if (missing(left) || missing(right)) return missing(left) - missing(right) || a - b;
      if (left < right) return -sign;
      return left > right ? sign : a - b;
    });
    return order.map((n) => rows[n]);
  }

  // Best first unless the reader has chosen: the best has no minus where small is best.
  firstSort() {
    const [one] = this.data.experiments;
    return one?.smaller_is_better ? 'best' : '-best';
  }

  redraw() {
    this.rows = this.sorted();
    this.shown = this.shownColumns();
    this.drawHead();
    this.drawPicker();
    this.drawRows();
  }

  drawHead() {
    const {column, descending} = this.sortKey();
    this.head.replaceChildren(...this.shown.map((one) => element('button', {
      class: one.numeric ? 'cell number' : 'cell', type: 'button', role: 'columnheader',
      title: one.name, 'aria-sort': one === column ? (descending ? 'descending' : 'ascending') : 'none',
      onclick: () => this.state.set({
        sort: (one === column && !descending ? '-' : '') + one.name}),
    }, (one.label || one.name) + (one === column ? (descending ? ' ▼' : ' ▲') : ''))));
  }

  drawPicker() {
    if (this.picker.children.length > 1) return;
    const list = element('div', {class: 'choices'});
    for (const one of this.columns) {
      const box = element('input', {type: 'checkbox', checked: this.shown.includes(one)});
      box.addEventListener('change', () => {
        const names = new Set(this.shownColumns().map((shown) => shown.name));
        if (box.checked) names.add(one.name); else names.delete(one.name);
        this.state.set({columns: [...names].join('|')});
      });
      list.append(element('label', {}, box, ' ' + one.name));
    }
    this.picker.append(list);
  }

  drawRows() {
    if (!this.rows) return;
    const top = Math.max(0, Math.floor(this.scroll.scrollTop / ROW_HEIGHT) - 5);
    const count = Math.ceil(this.scroll.clientHeight / ROW_HEIGHT) + 10;
    this.body.style.height = this.rows.length * ROW_HEIGHT + 'px';
    this.body.replaceChildren(...this.rows.slice(top, top + count).map((trial, n) =>
      this.rowOf(trial, top + n)));
  }

  rowOf(trial, n) {
    const id = this.data.idOf(trial);
    const row = element('div', {role: 'row', 'data-trial': id, tabindex: '-1',
      class: 'row' + (trial === this.state.hovered ? ' hovered' : '') +
          (id === this.state.get('trial') ? ' chosen' : ''),
      onclick: () => this.state.set({trial: id}),
    }, ...this.shown.map((column) => {
      const text = column.text(trial);
      const cell = element('span', {class: column.numeric ? 'cell number' : 'cell', role: 'cell',
        title: text}, text);
      if (column.name === 'state') cell.style.borderLeftColor = STATE_COLORS[text];
      return cell;
    }));
    row.style.top = n * ROW_HEIGHT + 'px';
    return row;
  }

  // Arrows go through the rows, Enter shows a trial.
  key(event) {
    const {state} = this;
    if (event.target !== this.scroll) return;
    if (event.key === 'Enter' && state.hovered >= 0) {
      event.preventDefault();  // the key would press the button that gets the focus
      state.set({trial: this.data.idOf(state.hovered)});
      return;
    }
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (!step || !this.rows.length) return;
    event.preventDefault();
    const at = this.rows.indexOf(state.hovered) + step;
    const row = Math.min(Math.max(at, 0), this.rows.length - 1);
    const [top, height] = [row * ROW_HEIGHT, this.scroll.clientHeight - 2 * ROW_HEIGHT];
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    else if (top > this.scroll.scrollTop + height) this.scroll.scrollTop = top - height;
    state.keyed = true;
    state.hover(this.rows[row]);
  }

  async copy() {
    const quote = (value) => {
      const text = typeof value === 'number' ? (Number.isNaN(value) ? '' : String(value)) : String(value);
      return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    };
    const lines = [this.shown.map((one) => quote(one.name)).join(',')];
    for (const trial of this.rows) {
      lines.push(this.shown.map((one) =>
        quote(one.name === 'id' ? this.data.idOf(trial) : one.value(trial))).join(','));
    }
    const csv = lines.join('\n') + '\n';
    try {
      await navigator.clipboard.writeText(csv);
    } catch (error) {  // not allowed for a file in some browsers
      const area = element('textarea', {}, csv);
      document.body.append(area);
      area.select();
      document.execCommand('copy');
      area.remove();
    }
    this.copied.textContent = `${this.rows.length} rows copied`;
  }
}

/** All that is known about one trial. */
export class TrialView {
  constructor(state) {
    this.state = state;
    this.data = state.data;
    this.body = element('div');
    this.dialog = element('dialog', {class: 'trial', 'aria-label': 'trial'},
        element('button', {type: 'button', class: 'close', 'aria-label': 'close',
          onclick: () => this.dialog.close()}, '×'), this.body);
    this.dialog.addEventListener('close', () => {
      if (state.get('trial')) state.set({trial: ''});
    });
    this.dialog.addEventListener('click', (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    state.onChange(() => this.redraw());
  }

  redraw() {
    const id = this.state.get('trial');
    const trial = id ? this.data.trialOf(id) : -1;
    if (trial < 0) {
      if (this.dialog.open) this.dialog.close();
      return;
    }
    this.body.replaceChildren(...this.content(trial, id));
    if (!this.dialog.open) this.dialog.showModal();
  }

  content(trial, id) {
    const {data} = this;
    const experiment = data.experimentOf(trial);
    const number = data.trials.number[trial];
    const parts = [element('h2', {}, `Trial ${id} · ${data.stateOf(trial)}`)];
    if (experiment.reasons[number]) parts.push(element('p', {}, experiment.reasons[number]));
    parts.push(this.section('Hyperparameters', [...data.axes
        .filter((axis) => !Number.isNaN(axis.values[trial]))
        .map((axis) => [axis.name, data.hparamText(axis, trial)]),
    ...Object.entries(experiment.constants || {})
        .map(([name, value]) => [name, textOf(value) + ' (not searched)'])]));
    parts.push(this.metrics(trial), this.section('Effort', [
      [experiment.unit || 'batches', formatNumber(data.trials.batches[trial])],
      ['time', formatDuration(data.trials.seconds[trial])],
      ['restarts', formatNumber(data.trials.restarts[trial])],
      ['rungs completed', formatNumber(data.trials.rung[trial])]]));
    const profile = experiment.profiles?.[number];
    if (profile) parts.push(...this.profile(profile));
    const saved = this.checkpointsOf(experiment, number);
    parts.push(this.section('Checkpoints', saved.map(({uuid, batches, bytes}) =>
      [uuid, `after ${lengthText(batches, experiment.unit || 'batches')}`, formatBytes(bytes)])));
    parts.push(element('h3', {}, 'Commands'), element('pre', {class: 'commands'},
        commandsOf(id, data.stateOf(trial), saved).join('\n')));
    if (experiment.logs[number]) {
      parts.push(element('h3', {}, 'End of the log'), element('pre', {class: 'log'}, experiment.logs[number]));
    }
    return parts;
  }

  metrics(trial) {
    const {data} = this;
    const rows = data.metrics.filter((one) => data.series(trial, one.key)).map((one) => {
      const {value} = data.series(trial, one.key);
      return [`${one.name} (${one.kind})`, formatNumber(data.valuesAtBest(one.key)[trial]),
        formatNumber(value[value.length - 1]), this.spark(trial, one.key)];
    });
    return this.section('Metrics', rows, ['', 'at the best validation', 'last', 'all']);
  }

  // The table of `dtrain describe`.
  profile(profile) {
    const row = (name, seconds, each, share) => [name, each.toFixed(3), (share * 100).toFixed(1) + ' %',
      formatDuration(seconds)];
    const wall = profile.wall_seconds;
    const facts = [['samples/s', formatNumber(profile.samples_per_second)],
      ['faults/batch', formatNumber(profile.minor_faults_per_batch)],
      ['peak memory', formatBytes(profile.peak_memory_bytes)],
      ['GPU memory', profile.gpu_memory_bytes && formatBytes(profile.gpu_memory_bytes)],
      ['GPU busy', profile.gpu_utilization_percent && profile.gpu_utilization_percent + ' %']];
    return [this.section('Profile', [
      ...PHASES.filter((name) => profile.phases[name]).map((name) => [name, profile.phases[name]])
          .map(([name, one]) => row(name, one.seconds, one.milliseconds_per_batch, one.share)),
      row('all', wall, profile.batches ? wall * 1000 / profile.batches : 0, wall > 0 ? 1 : 0)],
    ['', 'ms per batch', 'share', 'time']),
    this.section('', facts.filter(([, value]) => value !== null))];
  }

  section(title, rows, heads = []) {
    return element('div', {}, element('h3', {}, title), rows.length ?
      element('table', {}, ...(heads.length ? [element('tr', {}, ...heads.map((head) =>
        element('th', {scope: 'col'}, head)))] : []),
      ...rows.map(([name, ...cells]) => element('tr', {},
          element('th', {scope: 'row', title: name}, shorten(name, 48)),
          ...cells.map((cell) => element('td', {}, cell))))) :
      element('p', {class: 'note'}, 'none'));
  }

  spark(trial, key) {
    const canvas = element('canvas', {width: 160, height: 28, role: 'img',
      'aria-label': 'curve of ' + nameOf(key)});
    const {value} = this.data.series(trial, key);
    let low = Infinity;
    let high = -Infinity;
    for (const one of value) {
      if (!Number.isFinite(one)) continue;
      low = Math.min(low, one);
      high = Math.max(high, one);
    }
    const context = canvas.getContext('2d');
    context.strokeStyle = themeColor('accent');
    context.lineWidth = 1.5;
    context.beginPath();
    for (let i = 0; i < value.length; ++i) {
      if (!Number.isFinite(value[i])) continue;
      const x = 2 + 156 * (value.length > 1 ? i / (value.length - 1) : 0.5);
      const y = 26 - 24 * (high > low ? (value[i] - low) / (high - low) : 0.5);
      context.lineTo(x, y);
    }
    context.stroke();
    return canvas;
  }

  checkpointsOf(experiment, number) {
    const saved = experiment.checkpoints;
    const found = [];
    for (let i = 0; i < saved.uuid.length; ++i) {
      if (saved.trial[i] !== number) continue;
      found.push({uuid: saved.uuid[i], batches: saved.batches[i], bytes: saved.bytes[i]});
    }
    return found;
  }
}

// Commands that reproduce a trial and continue it, of those that work in its state.
function commandsOf(id, state, saved) {
  const ended = ['COMPLETED', 'STOPPED', 'ERROR', 'CANCELED', 'INVALID'].includes(state);
  return [`dtrain describe ${id}`, `dtrain metrics ${id}`, `dtrain logs ${id}`,
    ...(ended ? [`dtrain reproduce ${id}`] : []),
    ...(saved.length ? [`dtrain continue ${id} --best`] : []),
    ...saved.map(({uuid}) => `dtrain checkpoint show ${uuid}`)];
}

function formatBytes(bytes) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let power = 0;
  for (; bytes >= 1000 && power + 1 < units.length; ++power) bytes /= 1000;
  return `${Number(bytes.toPrecision(3))} ${units[power]}`;
}

/** Lines of a nested value: [["searcher.name", "asha"], …]. */
export function flatten(value, prefix = '') {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    return [[prefix, textOf(value)]];
  }
  return Object.entries(value).flatMap(([name, one]) =>
    flatten(one, prefix ? prefix + '.' + name : name));
}
