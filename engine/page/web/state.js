// What the reader has chosen: filter, selection, metric, axes of the plots. It
// is shared by all plots and kept in the fragment of the URL, so that a link
// shows the same.
//
// `visible` says for each trial whether it passes the filter, the brushes and
// the choice of experiments; it is computed at each change (update), and
// listeners are called once in the next frame. `version` changes with it and
// tells plots whether what they have kept is still right. An invalid filter
// excludes no trial and is reported as `error`. Pointing at a trial is not part
// of the choices: it has listeners of its own and computes nothing.

import {parseFilter, matches, FilterError, didYouMean} from './query.js';
import {lengthText, textOf} from './data.js';

const DEFAULTS = {filter: '', metric: '', x: 'batches', log: '', smooth: '0', theme: '',
  trial: '', brush: '', order: '', sort: '', columns: '', pareto: '', contour: '', larger: '',
  smaller: '', at: '', kinds: '', effort: 'batches', pins: '', differing: '',
  group: '', zoom: '', color: '', find: ''};
const MAX_PINS = 20;
// A box of a plot means nothing on other axes.
const AXES = ['metric', 'x', 'effort', 'log', 'at', 'pareto', 'contour'];

export class State {
  constructor(data) {
    this.data = data;
    this.listeners = [];
    this.values = {...DEFAULTS};
    this.error = '';
    this.visible = new Uint8Array(data.trials.count).fill(1);  // passes filter and brushes
    this.shown = data.trials.count;
    this.hidden = new Set();  // indices of experiments
    this.hovered = -1;
    // The keyboard chose `hovered`: what scrolls under a still mouse does not change it.
    this.keyed = false;
    this.version = 0;  // of what is visible
    this.order = null;  // asks the server of a live page for a change, if it may
    this.readFragment();
    this.update();
    this.ended = new AbortController();
    window.addEventListener('hashchange', () => { this.readFragment(); this.changed(); },
        {signal: this.ended.signal});
    document.addEventListener('pointermove', (event) => {
      if (event.movementX || event.movementY) this.keyed = false;
    }, {capture: true, signal: this.ended.signal});
  }

  /** After the data was replaced. */
  refresh() {
    this.visible = new Uint8Array(this.data.trials.count);
    this.hovered = -1;
    this.changed();
  }

  /** Ignores the address from now on: another state has taken its place. */
  stop() { this.ended.abort(); }

  /** Observes an element until the state ends. */
  observe(node, observer) {
    observer.observe(node);
    this.ended.signal.addEventListener('abort', () => observer.disconnect());
  }

  get(name) { return this.values[name]; }

  /** Changes values, and redraws everything that depends on them. */
  set(values) {
    const others = AXES.some((name) => name in values && values[name] !== this.values[name]);
    Object.assign(this.values, others ? {zoom: ''} : {}, values);
    this.writeFragment();
    this.changed();
  }

  /** Says a text to a screen reader: an answer to what the reader did, never an update. */
  speak(text) {
    const spoken = document.getElementById('spoken');
    if (spoken) spoken.textContent = text;
  }

  onChange(listener) { this.listeners.push(listener); }
  onHover(listener) { (this.hoverListeners ||= []).push(listener); }

  hover(trial) {
    if (trial === this.hovered) return;
    this.hovered = trial;
    for (const listener of this.hoverListeners || []) listener(trial);
  }

  toggleExperiment(index) {
    if (!this.hidden.delete(index)) this.hidden.add(index);
    this.changed();
  }

  changed() {
    this.update();
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      for (const listener of this.listeners) listener();
    });
  }

  readFragment() {
    this.values = {...DEFAULTS};
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
      if (name in DEFAULTS) this.values[name] = value;
    }
  }

  writeFragment() {
    const fragment = new URLSearchParams();
    for (const [name, value] of Object.entries(this.values)) {
      if (value !== DEFAULTS[name]) fragment.set(name, value);
    }
    history.replaceState(null, '', '#' + fragment);
  }

  /** Key of the chosen metric: by default the first experiment's. */
  metric() {
    const {metrics, experiments} = this.data;
    const chosen = metrics.find((one) => one.key === this.values.metric);
    const own = metrics.find((one) => one.name === experiments[0]?.metric);
    return (chosen || own || metrics[0])?.key ?? '';
  }

  /** A metric's values where trials are compared: at their best validations, or one length. */
  valuesOf(key) { return this.data.valuesAt(key, this.values.at); }

  /** "at the best validation", "after 160 batches" */
  placeText() {
    const {unit = 'batches'} = this.data.experiments[0] || {};
    return this.values.at ? 'after ' + lengthText(Number(this.values.at), unit) : 'at the best validation';
  }

  /**
   * 'smaller' or 'larger', which is better of this metric: for a searcher's
   * metric by its experiment, for others by the reader's choice, else ''.
   */
  direction(key) {
    const name = key.slice(key.indexOf('/') + 1);
    const own = this.data.experiments.find((one) => one.metric === name);
    if (own) return own.smaller_is_better ? 'smaller' : 'larger';
    return ['smaller', 'larger'].find((one) => this.values[one].split('|').includes(name)) || '';
  }

  smallerIsBetter(key) { return this.direction(key) !== 'larger'; }

  /** True if the better direction is the reader's choice. */
  hasChoiceOfDirection(key) {
    const name = key.slice(key.indexOf('/') + 1);
    return !this.data.experiments.some((one) => one.metric === name);
  }

  setDirection(key, direction) {
    const name = key.slice(key.indexOf('/') + 1);
    this.set(Object.fromEntries(['smaller', 'larger'].map((one) => {
      const others = this.values[one].split('|').filter((other) => other && other !== name);
      return [one, [...others, ...(one === direction ? [name] : [])].join('|')];
    })));
  }

  /** Pinned trials that are there, in the order in which they were pinned. */
  pinned() { return this.pinnedIds().map((id) => this.data.trialOf(id)).filter((trial) => trial >= 0); }

  pinnedIds() { return this.values.pins.split('|').filter(Boolean).slice(0, MAX_PINS); }

  togglePin(id) {
    const ids = this.pinnedIds();
    this.set({pins: (ids.includes(id) ? ids.filter((one) => one !== id) : [...ids, id]).join('|')});
  }

  // Brushed ranges of axes: {"hp.lr": [low, high]}.
  brushes() { return this.ranges('brush', 2); }

  /** Boxes of the plots that are zoomed: {"history": [x low, x high, y low, y high]}. */
  zooms() { return this.ranges('zoom', 4); }

  // Lists of so many numbers by name; without those that a broken link has.
  ranges(name, count) {
    try {
      return Object.fromEntries(Object.entries(JSON.parse(this.values[name] || '{}'))
          .filter(([, list]) => Array.isArray(list) && list.length === count && list.every(Number.isFinite)));
    } catch (error) {
      return {};
    }
  }

  setZoom(plot, box) {
    const {[plot]: old, ...others} = this.zooms();
    const zooms = box ? {...others, [plot]: box.map((end) => Number(end.toPrecision(6)))} : others;
    this.set({zoom: Object.keys(zooms).length ? JSON.stringify(zooms) : ''});
  }

  setBrush(name, range) {
    const brushes = this.brushes();
    if (range) brushes[name] = range; else delete brushes[name];
    const any = Object.keys(brushes).length > 0;
    this.set({brush: any ? JSON.stringify(brushes) : ''});
  }

  /** Values of the axis of a brush: of a hyperparameter, or a metric. */
  axisValues(name) {
    if (name.startsWith('hp.')) {
      return this.data.axes.find((one) => 'hp.' + one.name === name)?.values;
    }
    return this.data.metrics.some((one) => one.key === name) ?
        this.valuesOf(name) : undefined;
  }

  // Finds the trials that pass the filter and the brushes.
  update() {
    const {trials} = this.data;
    let test = () => true;
    this.error = '';
    try {
      if (this.values.filter.trim()) test = this.filterTest(this.values.filter);
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
      this.error = error.message;
    }
    const ranges = Object.entries(this.brushes())
        .map(([name, range]) => [this.axisValues(name), ...range])
        .filter(([values]) => values);
    this.shown = 0;
    ++this.version;
    for (let i = 0; i < trials.count; ++i) {
      const passes = !this.hidden.has(trials.experiment[i]) &&
          ranges.every(([values, low, high]) => values[i] >= low && values[i] <= high) && test(i);
      this.visible[i] = passes ? 1 : 0;
      this.shown += passes ? 1 : 0;
    }
  }

  filterTest(text) {
    const fields = trialFields(this.data);
    const resolve = (name) => {
      const field = fields.get(name) || functionField(this.data, name);
      if (field?.problem) throw new FilterError(field.problem);
      if (field) return field;
      throw new FilterError(`unknown name '${name}'` + didYouMean(name, [...fields.keys()]) +
          '; available: ' + [...fields.keys()].slice(0, 40).join(', '));
    };
    const tree = parseFilter(text, {resolve, now: Date.now()});
    return (trial) => matches(tree, (name) => resolve(name).value(trial));
  }
}

const textOrNull = (text) => text || null;
const numberOrNull = (number) => (Number.isNaN(number) ? null : number);
const column = (name) => (data, i) => numberOrNull(data.trials[name][i]);
const byNumber = (name) => (data, i) => textOrNull(data.experimentOf(i)[name]?.[data.trials.number[i]]);
// A time that is known in seconds since the creation of the experiment.
const time = (name) => (data, i) => {
  const since = data.trials[name][i];
  return Number.isNaN(since) ? null : {time: data.experimentOf(i).created + since * 1000};
};

// Values of the columns of a trial that the command line has, too: the document
// names them (fields) with their kinds and other names.
const COLUMNS = {
  id: (data, i) => data.idOf(i),
  number: column('number'),
  point: (data, i) => data.repeatOf(i)?.point ?? null,
  repeat: (data, i) => data.repeatOf(i)?.repeat ?? null,
  state: (data, i) => data.stateOf(i),
  hparams: (data, i) => {
    const {constants = {}, searched} = data.experimentOf(i);
    const axes = data.axes.filter(({name}) => searched.some((own) => own.name === name));
    return [...Object.entries(constants).map(([name, value]) => [name, textOf(value)]),
      ...axes.filter((axis) => data.hasHparam(axis, i)).map((axis) => [axis.name, data.hparamText(axis, i)])]
        .sort(([a], [b]) => (a < b ? -1 : 1)).map((pair) => pair.join('=')).join(' ');
  },
  best: column('best'),
  latest: column('latest'),
  rung: column('rung'),
  batches: column('batches'),
  reason: byNumber('reasons'),
  duration: column('seconds'),
  created: time('created'),
  started: time('started'),
  ended: time('ended'),
  restarts: column('restarts'),
  preemptions: column('preemptions'),
  runs: column('runs'),
  slots: byNumber('slots'),
  pid: (data, i) => data.trials.pid[i] || null,
  seed: column('seed'),
  checkpoint: (data, i) => data.latestCheckpoint(i),
  star: (data, i) => Number(data.remarkOf(i).star),
  note: (data, i) => data.remarkOf(i).note || null,
  experiment: (data, i) => data.experimentOf(i).id,
  name: (data, i) => data.experimentOf(i).name,
  label: (data, i) => data.experimentOf(i).labels,
};

/** Fields of a trial by name: {kind, words, value(trial)}, or {problem}; as the command line has them. */
export function trialFields(data) {
  const fields = new Map();
  const all = (data.about.fields || []).map(([name, kind, meaning, weak]) => ({name, weak, kind,
    words: meaning === 'state' ? data.experiments[0]?.states : undefined,
    value: (i) => COLUMNS[meaning](data, i)}));
  for (const one of all) if (!one.weak) fields.set(one.name, one);
  const hparams = new Map();
  for (const {constants = {}} of data.experiments) {
    for (const name of Object.keys(constants)) {
      hparams.set(name, {kind: 'any', value: (i) => data.experimentOf(i).constants[name] ?? null});
    }
  }
  for (const axis of data.axes) {
    hparams.set(axis.name, {kind: 'any', value: (i) => {
      const place = axis.values[i];
      const value = axis.exact.get(i) ?? (Number.isNaN(place) ? null :
        axis.choices.length ? axis.choices[place] : place);
      return value === null || typeof value === 'number' || typeof value === 'bigint' ? value : textOf(value);
    }});
  }
  const metrics = new Map();
  for (const one of data.metrics) {
    if (metrics.has(one.name)) continue;  // of training
    metrics.set(one.name, {kind: 'number', value: (i) => numberOrNull(data.valuesAtBest(one.key)[i])});
  }
  const strong = new Set(fields.keys());
  for (const [prefix, some, others] of [['hp.', hparams, metrics], ['metric.', metrics, hparams]]) {
    for (const [name, field] of some) {
      fields.set(prefix + name, field);
      if (strong.has(name)) continue;
      fields.set(name, others.has(name) ? {problem: `'${name}' may be a hyperparameter or a metric; ` +
          `write hp.${name} or metric.${name}`} : field);
    }
  }
  for (const one of all) if (!fields.has(one.name)) fields.set(one.name, one);
  const units = new Set(data.experiments.map(({unit}) => unit).filter(Boolean));
  for (const unit of units) if (!fields.has(unit)) fields.set(unit, fields.get('batches'));
  return fields;
}

// The field of min(M), max(M), last(M) or at(M,LENGTH); nothing for others.
function functionField(data, text) {
  const found = /^(min|max|last|at)\((.*?)(?:,([\d.e+]+))?\)$/.exec(text);
  const metric = found && (data.metrics.find((one) => one.name === found[2]) ||
      data.metrics.find((one) => 'metric.' + one.name === found[2]));
  if (!metric) return undefined;
  const reduce = {
    min: (series) => extreme(series.value, Math.min),
    max: (series) => extreme(series.value, Math.max),
    last: (series) => series.value[series.value.length - 1],
    at: (series) => series.value[series.batches.indexOf(Number(found[3]))] ?? null,
  }[found[1]];
  return {kind: 'number', value: (i) => {
    const series = data.series(i, metric.key);
    return series && series.value.length ? reduce(series) : null;
  }};
}

// Infinities count, NaN does not, as in the filters of `dtrain trials`.
function extreme(values, better) {
  let found = null;
  for (const value of values) {
    if (!Number.isNaN(value)) found = found === null ? value : better(found, value);
  }
  return found;
}
