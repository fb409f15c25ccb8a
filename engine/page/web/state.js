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
import {textOf} from './data.js';

const DEFAULTS = {filter: '', metric: '', x: 'batches', log: '', smooth: '0', theme: '',
  trial: '', brush: '', order: '', sort: '', columns: '', pareto: '', contour: '', larger: '',
  effort: 'batches'};

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

  get(name) { return this.values[name]; }

  /** Changes values, and redraws everything that depends on them. */
  set(values) {
    Object.assign(this.values, values);
    this.writeFragment();
    this.changed();
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

  /**
   * True if smaller values of this metric are better: for a searcher's metric by
   * its experiment, for others by the reader's choice.
   */
  smallerIsBetter(key) {
    const name = key.slice(key.indexOf('/') + 1);
    const own = this.data.experiments.find((one) => one.metric === name);
    if (own) return own.smaller_is_better;
    return !this.values.larger.split('|').includes(name);
  }

  /** True if the better direction is the reader's choice. */
  hasChoiceOfDirection(key) {
    const name = key.slice(key.indexOf('/') + 1);
    return !this.data.experiments.some((one) => one.metric === name);
  }

  turnDirection(key) {
    const name = key.slice(key.indexOf('/') + 1);
    const names = new Set(this.values.larger.split('|').filter(Boolean));
    if (!names.delete(name)) names.add(name);
    this.set({larger: [...names].join('|')});
  }

  // Brushed ranges of axes: {"hp.lr": [low, high]}.
  brushes() {
    try {
      return JSON.parse(this.values.brush || '{}');
    } catch (error) {
      return {};
    }
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
        this.data.valuesAtBest(name) : undefined;
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
      if (field) return field;
      throw new FilterError(`unknown name '${name}'` + didYouMean(name, [...fields.keys()]) +
          '; available: ' + [...fields.keys()].slice(0, 40).join(', '));
    };
    const tree = parseFilter(text, {resolve, now: Date.now()});
    return (trial) => matches(tree, (name) => resolve(name).value(trial));
  }
}

// Fields of a trial by name: {kind, words, value(trial)}.
export function trialFields(data) {
  const {trials} = data;
  const fields = new Map();
  const number = (name, values) =>
    fields.set(name, {kind: 'number', value: (i) => (Number.isNaN(values[i]) ? null : values[i])});
  fields.set('id', {kind: 'text', value: (i) => data.idOf(i)});
  fields.set('experiment', {kind: 'number', value: (i) => data.experimentOf(i).id});
  fields.set('trial', {kind: 'number', value: (i) => trials.number[i]});
  fields.set('name', {kind: 'text', value: (i) => data.experimentOf(i).name});
  fields.set('label', {kind: 'texts', value: (i) => data.experimentOf(i).labels});
  fields.set('state', {kind: 'text', words: data.experiments[0]?.states,
    value: (i) => data.stateOf(i)});
  number('batches', trials.batches);
  number('best', trials.best);
  number('latest', trials.latest);
  number('restarts', trials.restarts);
  number('rung', trials.rung);
  fields.set('seconds', {kind: 'duration', value: (i) => trials.seconds[i]});
  for (const axis of data.axes) {
    const value = (i) => {
      const place = axis.values[i];
      if (axis.exact.has(i)) return axis.exact.get(i);
      if (Number.isNaN(place)) return null;
      if (!axis.choices.length) return place;
      const choice = axis.choices[place];
      return typeof choice === 'number' ? choice : textOf(choice);
    };
    fields.set('hp.' + axis.name, {kind: 'any', value});
    if (!fields.has(axis.name)) fields.set(axis.name, {kind: 'any', value});
  }
  for (const one of data.metrics) {
    if (fields.has(one.name)) continue;
    fields.set(one.name, {kind: 'number', value: (i) => {
      const value = data.valuesAtBest(one.key)[i];
      return Number.isNaN(value) ? null : value;
    }});
  }
  return fields;
}

// The field of min(M), max(M), last(M) or at(M,LENGTH); nothing for others.
function functionField(data, text) {
  const found = /^(min|max|last|at)\((.*?)(?:,([\d.e+]+))?\)$/.exec(text);
  const metric = found && data.metrics.find((one) => one.name === found[2]);
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
