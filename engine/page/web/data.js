// Reads the bundle that the page embeds (engine/page/bundle.h) and gives it the
// shape that the plots use: one table of the trials of all experiments, and the
// series of their metrics.
//
// A trial is an index into the columns of `trials`; those of an experiment are
// adjacent, from `first` on. Hyperparameters of the same name are one axis for
// all experiments: of numbers if one of them searches a range, else of `choices`,
// with a place for each; a missing value is NaN. `exact` has, by trial, values
// that have no place on the axis, and as BigInt integers that a number cannot
// hold.
// Series are not copied for each trial: they are ranges of three long columns.
// The live page passes columns in place of references to them (live.js,
// assembled).

import {ranksOf} from './analysis.js';

/** Bytes of a base64 text. */
export function decodeBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Inflates gzip. */
export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Splits a bundle into {document, column}: column(ref) decodes a column. */
export function readBundle(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (String.fromCharCode(...bytes.subarray(0, 4)) !== 'DTRN') {
    throw new Error('this file contains no data of dtrain');
  }
  const length = view.getUint32(4, true);
  const text = new TextDecoder().decode(bytes.subarray(8, 8 + length));
  const columns = bytes.subarray(8 + length);
  const kinds = {u32: Uint32Array, f32: Float32Array, f64: Float64Array};
  const column = (ref) => {
    const kind = kinds[ref.as];
    const size = kind.BYTES_PER_ELEMENT;
    const raw = new Uint8Array(ref.n * size);
    for (let byte = 0; byte < size; ++byte) {
      const from = ref.at + byte * ref.n;
      for (let i = 0, to = byte; i < ref.n; ++i, to += size) raw[to] = columns[from + i];
    }
    const numbers = new kind(raw.buffer);
    if (ref.delta) {
      for (let i = 1; i < ref.n; ++i) numbers[i] += numbers[i - 1];
    }
    return numbers;
  };
  return {document: JSON.parse(text), column};
}

/** A hyperparameter's value as text. */
export function textOf(value) {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/**
 * Six significant digits; integers in full, and another number with as many more
 * digits as it takes to differ from every integer: 0.9999995 is not 1.
 */
export function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (typeof value === 'bigint') return String(value).replace('-', '−');
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  return rounded(value).replaceAll('-', '−');
}

function rounded(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value) && size <= 2 ** 53) return String(value);
  if (size < 1e-4 || size > 2 ** 53) return value.toExponential(5).replace(/\.?0+e/, 'e');
  for (let digits = 6; digits < 17; ++digits) {
    const number = Number(value.toPrecision(digits));
    if (!Number.isInteger(number)) return String(number);
  }
  return String(value);
}

/** A computed value without the noise of its last digits: 3.3 − 2.3 is 1. */
export function dropNoise(value) { return Number(value.toPrecision(12)); }

/** "1 epoch", "3000 records"; `unit` is the plural. */
export function lengthText(count, unit) {
  const one = unit === 'batches' ? 'batch' : unit.slice(0, -1);
  return `${count} ${count === 1 ? one : unit}`;
}

export function formatDuration(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  if (seconds < 120) return formatNumber(Number(seconds.toPrecision(3))) + ' s';
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return minutes + ' min';
  return Math.floor(minutes / 60) + ' h ' + (minutes % 60) + ' min';
}

const metricKey = (kind, name) => kind + '/' + name;

// Finds the series of one experiment: by metric, then by trial.
function indexSeries(experiment, column) {
  const {metrics} = experiment;
  const [trial, metric, count] =
      [metrics.trial, metrics.metric, metrics.count].map(column);
  experiment.rows = {
    batches: column(metrics.batches),
    milliseconds: column(metrics.milliseconds),
    value: column(metrics.value),
  };
  const byMetric = metrics.names.map(() => new Map());
  experiment.series = new Map(metrics.names.map(
      (one, i) => [metricKey(one.kind, one.name), byMetric[i]]));
  let begin = 0;
  for (let i = 0; i < trial.length; ++i) {
    byMetric[metric[i]].set(trial[i], [begin, begin + count[i]]);
    begin += count[i];
  }
}

/**
 * Everything that the page shows. `experiments` are those of the document, with
 * their series. `trials` has a column for each property, over the trials of all
 * experiments; a trial is its index there.
 */
export class Data {
  constructor(bundle) { this.load(bundle); }

  hasRepeats() {
    return this.experiments.some((one) => (one.config?.searcher?.repeats ?? 1) > 1);
  }

  /** Point and repeat of a trial, from 1, in a search with repeats; else null. */
  repeatOf(trial) {
    const repeats = this.experimentOf(trial).config?.searcher?.repeats ?? 1;
    if (repeats === 1) return null;
    const index = this.trials.number[trial] - 1;
    return {point: Math.floor(index / repeats) + 1, repeat: index % repeats + 1};
  }

  /** Replaces everything; axes of the same name remain the same objects. */
  load({document, column}) {
    this.about = document;
    this.experiments = document.experiments;
    this.trials = {count: 0};
    const names = ['number', 'state', 'batches', 'best', 'best_batches', 'latest', 'created',
      'started', 'ended', 'seconds', 'restarts', 'preemptions', 'runs', 'pid', 'seed', 'rung', 'lane'];
    const parts = names.map(() => []);
    this.experiments.forEach((experiment, e) => {
      experiment.index = e;
      experiment.first = this.trials.count;
      names.forEach((name, i) => parts[i].push(column(experiment.trials[name])));
      experiment.count = parts[0][e].length;
      this.trials.count += experiment.count;
      for (const axis of experiment.searched) axis.values = column(axis.values);
      if (experiment.compared) experiment.compared.values = column(experiment.compared.values);
      const {runs} = experiment;  // only with all metrics
      for (const name of runs ? ['trial', 'from', 'to', 'lane'] : []) runs[name] = column(runs[name]);
      const saved = experiment.checkpoints;
      for (const name of ['trial', 'batches', 'bytes']) saved[name] = column(saved[name]);
      indexSeries(experiment, column);
    });
    names.forEach((name, i) => { this.trials[name] = this.joined(parts[i]); });
    this.trials.experiment = new Uint16Array(this.trials.count);
    for (const one of this.experiments) {
      this.trials.experiment.fill(one.index, one.first, one.first + one.count);
    }
    const old = this.axes || [];
    this.axes = this.joinAxes().map((axis) => {
      const kept = old.find((one) => one.name === axis.name);
      return kept ? Object.assign(kept, axis) : axis;
    });
    this.metrics = this.listMetrics();
    this.atBest = new Map();
  }

  joined(parts) {
    const all = new Float64Array(this.trials.count);
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  // Hyperparameters that an experiment searches, or that are constant but not
  // the same in all.
  joinAxes() {
    const names = new Set(this.experiments.flatMap(({searched}) => searched.map(({name}) => name)));
    const constants = new Map();
    for (const experiment of this.experiments) {
      for (const [name, value] of Object.entries(experiment.constants || {})) {
        const text = JSON.stringify(value);
        if ((constants.get(name) ?? text) !== text) names.add(name);
        constants.set(name, text);
      }
    }
    return [...names].map((name) => this.joinAxis(name));
  }

  // A constant is a value of every trial of its experiment.
  joinAxis(name) {
    const ownOf = ({searched}) => searched.find((own) => own.name === name);
    const searched = this.experiments.map(ownOf).filter(Boolean);
    const ranges = searched.filter(({choices}) => !choices.length);
    const isNumeric = ranges.length > 0 || (!searched.length &&
        this.experiments.every(({constants: {[name]: value = 0} = {}}) => typeof value === 'number'));
    const axis = {name, choices: [], exact: new Map(), log: ranges.length > 0 &&
        ranges.every(({log}) => log), low: Infinity, high: -Infinity,
    values: new Float64Array(this.trials.count).fill(NaN)};
    // The place of a value of JSON, or NaN.
    const placeOf = (value) => {
      if (!isNumeric) return this.addChoice(axis, value);
      return typeof value === 'number' && (!axis.log || value > 0) ? value : NaN;
    };
    for (const experiment of this.experiments) {
      const own = ownOf(experiment) ||
          {low: Infinity, high: -Infinity, choices: [experiment.constants?.[name]]};
      if (own.choices[0] === undefined && !own.values) continue;
      const places = own.choices.map(placeOf);
      for (let i = 0; i < experiment.count; ++i) {
        const value = own.values ? own.values[i] : 0;
        const place = places.length && !Number.isNaN(value) ? places[value] : value;
        axis.values[experiment.first + i] = place;
        if (Number.isNaN(place) && !Number.isNaN(value)) {
          axis.exact.set(experiment.first + i, own.choices[value]);
        }
      }
      for (const [i, digits] of Object.entries(own.exact || {})) {
        axis.exact.set(experiment.first + Number(i), BigInt(digits));
      }
      const ends = own.choices.length ? places.filter((place) => !Number.isNaN(place)) :
        [own.low, own.high];
      axis.low = Math.min(axis.low, ...ends);
      axis.high = Math.max(axis.high, ...ends);
    }
    return axis;
  }

  /** Hyperparameters with several values, the most important ones first. */
  varyingAxes() {
    const shares = new Map();
    for (const {importance} of this.experiments) {
      for (const {name, share} of importance.items || []) {
        shares.set(name, Math.max(share, shares.get(name) ?? 0));
      }
    }
    const share = (axis) => shares.get(axis.name) ?? -1;
    return this.axes.filter((axis) => axis.high > axis.low).sort((a, b) => share(b) - share(a));
  }

  addChoice(axis, choice) {
    const text = JSON.stringify(choice);
    const place = axis.choices.findIndex((one) => JSON.stringify(one) === text);
    return place >= 0 ? place : axis.choices.push(choice) - 1;
  }

  // Metrics by kind and name, those of validations first.
  listMetrics() {
    const all = new Map();
    for (const kind of ['validation', 'training']) {
      for (const experiment of this.experiments) {
        for (const one of experiment.metrics.names) {
          if (one.kind === kind) all.set(metricKey(kind, one.name), one);
        }
      }
    }
    return [...all].map(([key, one]) => ({key, ...one}));
  }

  experimentOf(trial) { return this.experiments[this.trials.experiment[trial]]; }

  /** "3.7" */
  /** {star, note} that a reader has set. */
  remarkOf(trial) {
    return this.experimentOf(trial).remarks?.[this.trials.number[trial]] ?? {star: false, note: ''};
  }

  idOf(trial) { return this.experimentOf(trial).id + '.' + this.trials.number[trial]; }

  /** The trial called "3.7", or −1. */
  trialOf(id) {
    const [experiment, number] = id.split('.').map(Number);
    const found = this.experiments.find((one) => one.id === experiment);
    if (!found) return -1;
    const numbers = this.trials.number.subarray(found.first, found.first + found.count);
    const at = numbers.indexOf(number);
    return at < 0 ? -1 : found.first + at;
  }

  stateOf(trial) { return this.experimentOf(trial).states[this.trials.state[trial]]; }

  /** Points of a trial's metric: {batches, milliseconds, value}, or null. */
  series(trial, key) {
    const {series, rows} = this.experimentOf(trial);
    const range = series.get(key)?.get(this.trials.number[trial]);
    if (!range) return null;
    return {
      batches: rows.batches.subarray(...range),
      milliseconds: rows.milliseconds.subarray(...range),
      value: rows.value.subarray(...range),
    };
  }

  /**
   * All values of a metric of one experiment in the order of time, as columns:
   * {trials, batches, seconds, values}; seconds since the experiment's start.
   */
  observations(experiment, key) {
    experiment.observed ||= new Map();
    if (!experiment.observed.has(key)) experiment.observed.set(key, this.collect(experiment, key));
    return experiment.observed.get(key);
  }

  collect(experiment, key) {
    const {rows: {milliseconds, batches, value}} = experiment;
    const ranges = [...(experiment.series.get(key) || [])];
    let count = 0;
    let longest = 0;
    for (const [, [begin, end]] of ranges) {
      count += end - begin;
      if (end > begin) longest = Math.max(longest, milliseconds[end - 1]);
    }
    // One exact number to sort by, time and place in `from`: native sorting of
    // numbers is ten times as fast as with a function.
    const tick = Math.ceil(longest * count / 2 ** 53) || 1;
    const keys = new Float64Array(count);
    const from = new Uint32Array(count);
    const owners = new Float64Array(count);
    let at = 0;
    for (const [number, [begin, end]] of ranges) {
      for (let i = begin; i < end; ++i, ++at) {
        from[at] = i;
        owners[at] = number;
        keys[at] = Math.floor(milliseconds[i] / tick) * count + at;
      }
    }
    keys.sort();
    const start = (experiment.started ?? experiment.created) - experiment.created;
    const found = {trials: owners, batches: new Float64Array(count),
      seconds: new Float64Array(count), values: new Float64Array(count)};
    const numbers = owners.slice();
    for (let n = 0; n < count; ++n) {
      const place = keys[n] % count;
      const i = from[place];
      found.trials[n] = numbers[place];
      found.batches[n] = batches[i];
      found.seconds[n] = (milliseconds[i] - start) / 1000;
      found.values[n] = value[i];
    }
    return found;
  }

  /** A metric's values at the trials' best validations; NaN for none. */
  valuesAtBest(key) {
    if (!this.atBest.has(key)) {
      const values = new Float64Array(this.trials.count);
      for (let i = 0; i < values.length; ++i) values[i] = this.valueAtBest(i, key);
      this.atBest.set(key, values);
    }
    return this.atBest.get(key);
  }

  /** A metric's values after so many batches; NaN for trials without one there. */
  valuesAt(key, batches) {
    if (!batches) return this.valuesAtBest(key);
    const name = batches + ' ' + key;
    if (!this.atBest.has(name)) {
      this.atBest.set(name, Float64Array.from({length: this.trials.count}, (_, i) => {
        const series = this.series(i, key);
        const at = series ? series.batches.indexOf(Number(batches)) : -1;
        return at < 0 ? NaN : series.value[at];
      }));
    }
    return this.atBest.get(name);
  }

  /** Batches after which several trials were validated in a metric: at most 12, the commonest. */
  lengths(key) {
    if (!this.atBest.has('lengths ' + key)) this.atBest.set('lengths ' + key, this.findLengths(key));
    return this.atBest.get('lengths ' + key);
  }

  findLengths(key) {
    const counts = new Map();
    for (let i = 0; i < this.trials.count; ++i) {
      for (const batches of this.series(i, key)?.batches || []) {
        counts.set(batches, (counts.get(batches) || 0) + 1);
      }
    }
    return [...counts].filter(([, count]) => count > 1).sort((a, b) => b[1] - a[1] || b[0] - a[0])
        .slice(0, 12).map(([batches]) => batches).sort((a, b) => a - b);
  }

  /** A sentence if the experiments searched for different goals; empty otherwise. */
  goalNote() {
    const goals = this.experiments.map(({metric, smaller_is_better: smaller}) =>
      `the ${smaller ? 'smallest' : 'largest'} ${metric}`);
    return new Set(goals).size < 2 ? '' : 'The experiments were searched for different goals: ' +
        this.experiments.map(({id}, i) => `${id} for ${goals[i]}`).join(', ') + '.';
  }

  /** Share of each trial's rank among the best values of its experiment, 0 for the best. */
  placesInExperiments() {
    if (!this.atBest.has('')) {
      const shares = new Float64Array(this.trials.count).fill(NaN);
      for (const {first, count, smaller_is_better: smaller} of this.experiments) {
        const found = [];
        for (let i = first; i < first + count; ++i) if (Number.isFinite(this.trials.best[i])) found.push(i);
        const ranks = ranksOf(found.map((i) => this.trials.best[i] * (smaller ? 1 : -1)));
        found.forEach((i, n) => { shares[i] = (ranks[n] - 1) / Math.max(found.length - 1, 1); });
      }
      this.atBest.set('', shares);
    }
    return this.atBest.get('');
  }

  valueAtBest(trial, key) {
    if (key === metricKey('validation', this.experimentOf(trial).metric)) {
      return this.trials.best[trial];  // in full precision
    }
    const series = this.series(trial, key);
    if (!series) return NaN;
    for (let i = series.batches.length - 1; i >= 0; --i) {
      if (series.batches[i] <= this.trials.best_batches[trial]) return series.value[i];
    }
    return NaN;
  }

  /** The uuid of the trial's checkpoint after the most batches, or null. */
  latestCheckpoint(trial) {
    const {checkpoints: {uuid, trial: owner, batches}} = this.experimentOf(trial);
    let last = -1;
    for (let i = 0; i < uuid.length; ++i) {
      if (owner[i] === this.trials.number[trial] && !(batches[i] < batches[last])) last = i;
    }
    return uuid[last] ?? null;
  }

  hasHparam(axis, trial) { return !Number.isNaN(axis.values[trial]) || axis.exact.has(trial); }

  /** A trial's hyperparameter as text. */
  hparamText(axis, trial) {
    const exact = axis.exact.get(trial);
    if (exact !== undefined) return typeof exact === 'bigint' ? formatNumber(exact) : textOf(exact);
    return this.axisText(axis, axis.values[trial]);
  }

  /** A value on an axis as text. */
  axisText(axis, value) {
    if (Number.isNaN(value)) return '–';
    return axis.choices.length ? textOf(axis.choices[value]) : formatNumber(value);
  }
}
