// The table of trials. Only the rows in sight exist, so that its size costs
// nothing: rows have one height, so the scroll position alone says which ones
// are in sight, and each is placed by its number. TrialView, below, is the
// dialog with all that is known about one trial.

import {element, nameOf, patchChildren, shorten, themeColor} from './chart.js';
import {formatDuration, formatNumber, lengthText, textOf} from './data.js';
import {stateStyle} from './progress.js';

const ROW_HEIGHT = 26;
const MAX_PRINTED = 1000;  // rows, some 20 sheets

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
    {name: 'id', value: (i) => i, text: (i) => data.idOf(i) + (data.remarkOf(i).star ? ' ★' : '')},
    {name: 'state', value: (i) => data.stateOf(i), text: (i) => data.stateOf(i)},
    ...['point', 'repeat'].filter(() => data.hasRepeats()).map((name) => ({name, numeric: true,
      value: (i) => data.repeatOf(i)?.[name], text: (i) => formatNumber(data.repeatOf(i)?.[name])})),
    {...numeric('best'), label: bestLabel(data),
      ...(data.goalNote() ? {order: (i) => data.placesInExperiments()[i]} : {})},
    ...(data.goalNote() ? [{name: 'metric', value: (i) => data.experimentOf(i).metric,
      text: (i) => data.experimentOf(i).metric}] : []),
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
  columns.push(numeric('seconds', formatDuration), numeric('restarts'), numeric('rung'),
      {name: 'star', value: (i) => Number(data.remarkOf(i).star), text: (i) => (data.remarkOf(i).star ? '★' : '')},
      {name: 'note', value: (i) => data.remarkOf(i).note, text: (i) => data.remarkOf(i).note});
  return columns;
}

export class Table {
  constructor(state) {
    this.state = state;
    this.data = state.data;
    this.columns = columnsOf(this.data);
    this.head = element('div', {class: 'row head', role: 'row', 'aria-rowindex': '1'});
    this.body = element('div', {class: 'rows', role: 'rowgroup'});
    this.scroll = element('div', {class: 'scroll', tabindex: '0', role: 'table',
      'aria-label': 'trials'}, this.head, this.body);
    this.picker = element('details', {class: 'picker'}, element('summary', {}, 'Columns'));
    this.paper = element('p', {class: 'note'});
    this.copied = element('span', {class: 'fact', role: 'status'});
    const copy = element('button', {type: 'button', onclick: () => this.copy()}, 'Copy as CSV');
    this.card = element('section', {class: 'card wide', id: 'trials'},
        element('h2', {}, 'Trials'), element('p', {class: 'about'},
            'Click a heading to sort, a row to see the trial; arrows and Enter do, too. The box of a row, ' +
            'or the space bar, pins its trial to compare it. Values are those of the best validation.' + (this.data.goalNote() ? ' ' + this.data.goalNote() +
            ' Sorted by “best”, trials are in the order of their places within their experiments.' : '')),
        element('div', {class: 'controls'}, this.picker, copy, this.copied), this.scroll, this.paper);
    this.scroll.addEventListener('scroll', () => this.drawRows());
    this.scroll.addEventListener('keydown', (event) => this.key(event));
    state.observe(this.scroll, new ResizeObserver(() => this.drawRows()));
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
    const values = rows.map((i) => (column.order || column.value)(i));
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
    return one?.smaller_is_better || this.data.goalNote() ? 'best' : '-best';
  }

  redraw() {
    this.rows = this.sorted();
    this.shown = this.shownColumns();
    this.scroll.setAttribute('aria-rowcount', this.rows.length + 1);
    this.scroll.setAttribute('aria-colcount', this.shown.length + 1);
    this.drawHead();
    this.drawPicker();
    this.drawRows();
  }

  drawHead() {
    const {column, descending} = this.sortKey();
    patchChildren(this.head, [element('span', {class: 'cell pin', role: 'columnheader', 'data-key': ' pin',
      title: 'pinned'}, 'pin'), ...this.shown.map((one) => element('button', {'data-key': one.name,
      class: one.numeric ? 'cell number' : 'cell', type: 'button', role: 'columnheader',
      title: one.name, 'aria-sort': one === column ? (descending ? 'descending' : 'ascending') : 'none',
      onclick: () => this.state.set({
        sort: (one === column && !descending ? '-' : '') + one.name}),
    }, (one.label || one.name) + (one === column ? (descending ? ' ▼' : ' ▲') : '')))]);
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

  /** Draws every row, below each other, or again those in sight. */
  print(printing) {
    this.printing = printing;
    this.paper.textContent = printing && this.rows.length > MAX_PRINTED ?
      `${MAX_PRINTED} of ${this.rows.length} trials are printed; dtrain trials --csv has all.` : '';
    this.drawRows();
  }

  drawRows() {
    if (!this.rows) return;
    if (this.printing) {
      this.pins = new Set();
      patchChildren(this.body, this.rows.slice(0, MAX_PRINTED).map((trial, n) => this.rowOf(trial, n)));
      return;
    }
    const top = Math.max(0, Math.floor(this.scroll.scrollTop / ROW_HEIGHT) - 5);
    const count = Math.ceil(this.scroll.clientHeight / ROW_HEIGHT) + 10;
    this.body.style.height = this.rows.length * ROW_HEIGHT + 'px';
    this.pins = new Set(this.state.pinnedIds());
    patchChildren(this.body, this.rows.slice(top, top + count).map((trial, n) =>
      this.rowOf(trial, top + n)));
  }

  rowOf(trial, n) {
    const id = this.data.idOf(trial);
    const row = element('div', {role: 'row', 'aria-rowindex': String(n + 2), 'data-trial': id, 'data-key': id, tabindex: '-1',
      class: 'row' + (trial === this.state.hovered ? ' hovered' : '') +
          (id === this.state.get('trial') ? ' chosen' : ''),
      onclick: () => this.state.set({trial: id}),
    }, element('span', {class: 'cell pin', role: 'cell', onclick: (event) => event.stopPropagation()},
        element('input', {type: 'checkbox', tabindex: '-1', 'aria-label': 'pin ' + id,
          checked: this.pins.has(id), onchange: () => this.state.togglePin(id)})),
    ...this.shown.map((column) => {
      const text = column.text(trial);
      const cell = element('span', {class: column.numeric ? 'cell number' : 'cell', role: 'cell',
        title: text}, text);
      if (column.name === 'state') cell.style.borderLeftColor = stateStyle(text);
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
    if (event.key === ' ' && state.hovered >= 0) {
      event.preventDefault();
      const id = this.data.idOf(state.hovered);
      state.togglePin(id);
      state.speak(`${id} ${state.pinnedIds().includes(id) ? 'pinned' : 'unpinned'}`);
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
    state.speak(this.shown.slice(0, 6).map((one) => `${one.label || one.name} ${one.text(this.rows[row])}`).join(', '));
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
    patchChildren(this.body, this.content(trial, id));
    if (!this.dialog.open) this.dialog.showModal();
  }

  content(trial, id) {
    const {data} = this;
    const experiment = data.experimentOf(trial);
    const number = data.trials.number[trial];
    const pinned = this.state.pinnedIds().includes(id);
    const parts = [element('h2', {}, `Trial ${id} · ${data.stateOf(trial)} `, element('button', {type: 'button',
      class: 'pin-trial', onclick: () => this.state.togglePin(id)}, pinned ? 'Unpin' : 'Pin to compare')),
    ...this.remark(trial)];
    if (experiment.reasons[number]) parts.push(element('p', {}, experiment.reasons[number]));
    parts.push(this.section('Hyperparameters', [...data.axes
        .filter((axis) => experiment.searched.some(({name}) => name === axis.name) &&
            data.hasHparam(axis, trial))
        .map((axis) => [axis.name, data.hparamText(axis, trial)]),
    ...Object.entries(experiment.constants || {})
        .map(([name, value]) => [name, textOf(value) + ' (not searched)'])]));
    const place = this.data.repeatOf(trial);
    if (place) {
      parts.push(this.section('Repeats', [['point', formatNumber(place.point)],
        ['repeat', formatNumber(place.repeat)]]));
    }
    parts.push(this.metrics(trial), this.section('Effort', [
      [experiment.unit || 'batches', formatNumber(data.trials.batches[trial])],
      ['time', formatDuration(data.trials.seconds[trial])],
      ['restarts', formatNumber(data.trials.restarts[trial])],
      ['rungs completed', formatNumber(data.trials.rung[trial])]]));
    const profile = experiment.profiles?.[number];
    if (profile) parts.push(...this.profile(profile));
    const used = experiment.system?.[number];
    if (used) parts.push(this.resources(used));
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

  // The star and the note, to be changed where that is allowed.
  remark(trial) {
    const {star, note} = this.data.remarkOf(trial);
    const order = (change) => this.state.order({experiment: this.data.experimentOf(trial).id,
      trial: this.data.trials.number[trial], ...change});
    if (!this.state.order) return star || note ? [element('p', {class: 'remark'}, (star ? '★ ' : '') + note)] : [];
    return [element('div', {class: 'controls remark', 'data-key': 'remark ' + this.data.idOf(trial)},
        element('button', {type: 'button', 'data-key': 'star', 'aria-pressed': String(star), 'aria-label': 'star',
          onclick: () => order({action: 'star', remove: String(star)})}, star ? '★' : '☆'),
        element('input', {placeholder: 'note', 'aria-label': 'note of the trial', size: 40, 'data-key': 'note', value: note,
          onchange: ({target}) => order({action: 'note', text: target.value})}))];
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

  // The facts of `dtrain describe`.
  resources(used) {
    const bytes = (value) => value !== null && formatBytes(value);
    return this.section('Resources', [['use', used.summary],
      ['memory, at most', bytes(used.memory_bytes)],
      ['without shared pages, at most', bytes(used.pss_bytes)],
      ['read from storage', bytes(used.read_bytes)],
      ['written to storage', bytes(used.written_bytes)],
      ['GPU memory, at most', bytes(used.gpu_memory_bytes)],
      ['GPU power', used.gpu_watts !== null && formatNumber(used.gpu_watts) + ' W'],
      ['GPU temperature, at most', used.gpu_celsius !== null && used.gpu_celsius + ' °C']].filter(([, value]) => value !== false));
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

const MAX_COMPARED_METRICS = 100;

/** The pinned trials beside each other: what differs is marked. */
export class SideBySide {
  constructor(state) {
    this.state = state;
    this.data = state.data;
    this.body = element('div', {class: 'side-by-side', tabindex: '0', role: 'region', 'aria-label': 'pinned trials'});
    this.controls = element('div', {class: 'controls'});
    this.note = element('p', {class: 'note'});
    this.card = element('section', {class: 'card wide', id: 'pinned', hidden: true},
        element('h2', {}, 'Side by side'), element('p', {class: 'about'},
            'The pinned trials; ≠ marks what differs. They are in color in the curves, and kept in the address.'),
        this.controls, this.body, this.note);
    state.onChange(() => this.redraw());
  }

  redraw() {
    const {state} = this;
    const pins = state.pinned();
    this.card.hidden = !pins.length;
    if (!pins.length) return;
    const only = state.get('differing') !== '';
    patchChildren(this.controls, [
      element('label', {}, element('input', {type: 'checkbox', checked: only,
        onchange: () => state.set({differing: only ? '' : '1'})}), ' only what differs'),
      element('button', {type: 'button', onclick: () => state.set({
        filter: `id in (${pins.map((trial) => this.data.idOf(trial)).join(', ')})`})}, 'Show only these in all plots'),
      element('button', {type: 'button', onclick: () => state.set({pins: ''})}, 'Unpin all')]);
    patchChildren(this.body, [this.table(pins, only)]);
    const gone = state.pinnedIds().length - pins.length;
    this.note.textContent = [pins.length < 2 ? 'Pin another trial to compare.' : '', this.cut ?
      `${MAX_COMPARED_METRICS} of ${MAX_COMPARED_METRICS + this.cut} metrics are shown.` : '',
    gone ? `Pinned trials that this page does not have: ${gone}.` : ''].filter(Boolean).join(' ');
  }

  // Groups of rows: {title, rows: [[name, texts, best place or −1]]}.
  groups(pins) {
    const {data, state} = this;
    const texts = (text) => pins.map((trial) => text(trial));
    const constants = new Set(pins.flatMap((trial) => Object.keys(data.experimentOf(trial).constants || {})));
    const axes = new Map(data.axes.map((axis) => [axis.name, axis]));
    const names = [...axes.keys(), ...[...constants].filter((name) => !axes.has(name))];
    const hparam = (name) => (trial) => {
      const constant = data.experimentOf(trial).constants?.[name];
      if (constant !== undefined) return textOf(constant);
      return axes.has(name) ? data.hparamText(axes.get(name), trial) : '–';
    };
    const metrics = data.metrics.filter(({key}) => pins.some((trial) => data.series(trial, key)));
    this.cut = Math.max(0, metrics.length - MAX_COMPARED_METRICS);
    const number = (trial) => data.trials.number[trial];
    return [
      {title: '', rows: [['state', texts((trial) => data.stateOf(trial))],
        ['reason', texts((trial) => data.experimentOf(trial).reasons[number(trial)] || '–')]]},
      {title: 'Hyperparameters', rows: names.map((name) => [name, texts(hparam(name))])},
      {title: `Metrics ${state.placeText()}`, rows: metrics.slice(0, MAX_COMPARED_METRICS).map(({key, name, kind}) => {
        const values = pins.map((trial) => state.valuesOf(key)[trial]);
        const finite = values.filter(Number.isFinite);
        const best = state.direction(key) && finite.length > 1 ?
          (state.smallerIsBetter(key) ? Math.min(...finite) : Math.max(...finite)) : NaN;
        return [`${name}${kind === 'training' ? ' (training)' : ''}`, values.map(formatNumber), values.indexOf(best)];
      })},
      {title: 'Effort', rows: [['length', texts((trial) =>
        lengthText(data.trials.batches[trial], data.experimentOf(trial).unit || 'batches'))],
      ['time', texts((trial) => formatDuration(data.trials.seconds[trial]))],
      ['restarts', texts((trial) => formatNumber(data.trials.restarts[trial]))],
      ['rungs completed', texts((trial) => formatNumber(data.trials.rung[trial]))],
      ['latest checkpoint', texts((trial) => data.latestCheckpoint(trial) ?? '–')]]}];
  }

  table(pins, only) {
    const {data, state} = this;
    const head = element('tr', {}, element('td'), ...pins.map((trial) => {
      const id = data.idOf(trial);
      return element('th', {scope: 'col', 'data-key': id}, element('button', {type: 'button', class: 'key',
        onclick: () => state.set({trial: id})}, id), element('button', {type: 'button', class: 'tool',
        'aria-label': 'unpin ' + id, onclick: () => state.togglePin(id)}, '×'));
    }));
    const bodies = this.groups(pins).map(({title, rows}) => {
      const shown = rows.map(([name, texts, best = -1]) =>
        ({name, texts, best, differs: new Set(texts).size > 1})).filter(({differs}) => differs || !only);
      return element('tbody', {'data-key': title.split(' ')[0] || 'state'},
          ...(title && shown.length ? [element('tr', {}, element('th', {scope: 'rowgroup', class: 'group',
            colspan: String(pins.length + 1)}, title))] : []),
          ...shown.map(({name, texts, best, differs}) => element('tr', {class: differs ? 'differs' : ''},
              element('th', {scope: 'row', title: name}, element('span', {class: 'mark-differs',
                'aria-label': differs ? 'differs: ' : false}, differs ? '≠' : ''), ' ' + shorten(name, 48)),
              ...texts.map((text, i) => element('td', {class: i === best ? 'best' : ''},
                  text + (i === best ? ' (best)' : ''))))));
    });
    const logs = pins.map((trial) => data.experimentOf(trial).logs[data.trials.number[trial]] || '');
    const log = element('tbody', {'data-key': 'log'}, ...(logs.some(Boolean) ? [element('tr', {},
        element('th', {scope: 'row'}, 'end of the log'), ...logs.map((text) =>
          element('td', {}, ...(text ? [element('pre', {class: 'log'}, text)] : ['–']))))] : []));
    return element('table', {}, element('thead', {}, head), ...bodies, log);
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
