// Plots of trials' values: history, curves, distribution, Pareto front. Each
// one draws the visible trials of the state, and says below itself what it
// leaves out: values that are not finite or that a logarithmic axis cannot show
// are counted, never dropped silently. A curve of many more points than pixels
// is drawn by the first, lowest, highest and last one in each pixel
// (decimatedPoints), which looks the same. What History computes is kept until
// the metric, the effort or the selection changes.

/* global d3 */

import {bestSoFar, decimatedPoints, distributionOf, effortsOf, meanBand, paretoFront, smoothed}
  from './analysis.js';
import {CATEGORIES, Chart, categoryColor, choice, countOf, differentUnits, directionChoice, directionNote, element,
  experimentColor, knowsEpochs, lengthLabel, metricLabel, nameOf, opacityOf, patchChildren, rangeOf,
  rankShares, scaleOf, shorten, showColors, themeColor, timeUnit} from './chart.js';
import {formatDuration, formatNumber, lengthText} from './data.js';

const TOP = 10;  // curves in color
const MAX_FAINT = 1000;  // other curves
const MAX_GROUPS = CATEGORIES;
const THINNED = 'Curves are thinned: this page has at most a million values.';

/** The best value so far over the effort, and each trial's own. */
export class History extends Chart {
  constructor(state) {
    super(state, {id: 'history', title: 'History', about:
      'Line: the best value found so far. Dots: each trial’s value at its best validation, when ' +
      'it was found. Crosses: trials that failed, at their best value, or at the bottom without one.'});
    this.controls.append(choice('x', [['batches', lengthLabel(state.data)], ['trials', 'trials'],
      ['seconds', 'time']], state.get('effort'),
    (effort) => state.set({effort})));
    this.addColorKey(false);
  }

  // What is drawn of an experiment; kept, since pointing at a trial draws again.
  historyOf(experiment, key, effort) {
    const made = [key, effort, this.state.version, this.state.direction(key)].join();
    this.made ||= new Map();
    const old = this.made.get(experiment.index);
    if (old && old.made === made) return old;
    const found = {made, ...this.compute(experiment, key, effort)};
    this.made.set(experiment.index, found);
    return found;
  }

  compute(experiment, key, effort) {
    const {data, state} = this;
    const indices = new Map();
    for (let i = experiment.first; i < experiment.first + experiment.count; ++i) {
      if (state.visible[i]) indices.set(data.trials.number[i], i);
    }
    let seen = data.observations(experiment, key);
    if (indices.size < experiment.count) {
      const keep = (_, n) => indices.has(seen.trials[n]);
      seen = Object.fromEntries(Object.entries(seen).map(([name, values]) =>
        [name, values.filter(keep)]));
    }
    const efforts = effortsOf(seen, effort);
    const line = state.direction(key) ? bestSoFar(efforts, seen.values, state.smallerIsBetter(key)) : [];
    const places = new Map();  // of trials: the effort when the best was found
    for (let n = 0; n < efforts.length; ++n) {
      const i = indices.get(seen.trials[n]);
      if (seen.batches[n] <= data.trials.best_batches[i]) places.set(i, efforts[n]);
    }
    const start = ((experiment.started ?? experiment.created) - experiment.created) / 1000;
    const failures = [];
    for (const i of indices.values()) {
      if (data.stateOf(i) !== 'ERROR') continue;
      const end = Math.max(0, (data.trials.ended[i] || start) - start);
      const before = d3.bisectRight(seen.seconds, end);
      failures.push([effort === 'seconds' ? end : before ? efforts[before - 1] : 0, i]);
    }
    return {line, places, failures, validated: new Set(seen.trials).size, trials: indices.size,
      full: Math.max(efforts[efforts.length - 1] || 0, ...failures.map(([x]) => x))};
  }

  draw() {
    const {data, state} = this;
    const key = state.metric();
    const effort = state.get('effort');
    const values = data.valuesAtBest(key);
    const log = state.get('log').includes('y');
    this.marks.length = 0;
    const all = data.experiments.map((one) => this.historyOf(one, key, effort));
    const drawn = values.filter((value, i) => state.visible[i]);
    const range = this.limits(rangeOf([...drawn, ...all.flatMap(({line}) => line.map(([, value]) => value))],
        () => true, log), drawn);
    const notes = this.notesOf(all, drawn, log);
    if (!range) return this.say([emptyText(key, drawn), ...notes].join(' '));
    const {left, top, right, bottom} = this.box;
    const full = Math.max(...all.map((one) => one.full), 1e-9);
    const unit = effort === 'seconds' ? timeUnit(full) : {seconds: 1};
    const labels = {trials: 'trials that have reported', seconds:
      `${unit.name} since the start of the experiment`};
    const x = scaleOf({low: 0, high: full / unit.seconds * 1.01}, left, right);
    const y = scaleOf({...range, log}, bottom, top);
    if (range.above === undefined) y.nice();
    else notes.unshift(this.outlierNote(range, 'trial'));
    this.zoomedScales(x, y, unit.seconds);
    this.axes(x, y, {y: metricLabel(state, key), x: labels[effort] ||
      `${lengthLabel(data)} of all trials together`});
    this.clip();
    for (const experiment of data.experiments) {
      const {line, places, failures} = all[experiment.index];
      const color = experimentColor(experiment.index);
      this.context.globalAlpha = opacityOf(data.trials.count, 0.55);
      for (const [i, place] of places) {
        if (!Number.isFinite(values[i]) || (log && values[i] <= 0)) continue;
        const at = this.dot(x(place / unit.seconds), y(values[i]), this.colorOf(i, color), data.trials.count > 2000 ? 1.5 : 3);
        this.marks.push([...at, i]);
      }
      this.context.globalAlpha = 1;
      for (const [place, i] of failures) {
        const has = Number.isFinite(values[i]) && !(log && values[i] <= 0);
        const inside = (at) => (this.zoom ? at : Math.min(Math.max(at, top + 5), bottom - 5));
        const [px, py] = [x(place / unit.seconds), has ? inside(y(values[i])) : bottom - 5];
        if (this.isOutside(px, py)) continue;
        this.cross(px, py, themeColor('bad'));
        this.marks.push([px, py, i]);
      }
      this.steps(line.filter(([, value]) => Number.isFinite(value) && !(log && value <= 0))
          .map(([place, value]) => [x(place / unit.seconds), y(value)]), color);
    }
    this.context.restore();
    return this.say(notes.join(' '));
  }

  notesOf(all, drawn, log) {
    const sum = (of) => all.reduce((total, one) => total + of(one), 0);
    const failed = sum((one) => one.failures.length);
    const missing = sum((one) => one.trials - one.validated);
    return [failed ? `${countOf(failed, 'trial')} failed.` : '',
      missing ? `${countOf(missing, 'trial')} without a value.` : '',
      directionNote(this.state, [this.state.metric()], 'the best so far is drawn'),
      this.state.get('effort') === 'batches' ? differentUnits(this.data) : '',
      ...this.omissions(omitted(drawn, log)),
      this.data.experiments.some((one) => one.metrics.thinned) ? THINNED : ''].filter(Boolean);
  }

  steps(line, color) {
    const {context} = this;
    context.strokeStyle = color;
    context.lineWidth = 2;
    context.beginPath();
    line.forEach(([px, py], i) => {
      if (i === 0) context.moveTo(px, py);
      else {
        context.lineTo(px, line[i - 1][1]);
        context.lineTo(px, py);
      }
    });
    context.stroke();
  }
}

// Counts values that an axis cannot show.
function omitted(values, log) {
  let infinite = 0;
  let notPositive = 0;
  for (const value of values) {
    if (value === Infinity || value === -Infinity) ++infinite;
    else if (log && value <= 0) ++notPositive;
  }
  return {infinite, notPositive};
}

// Why a plot of a metric is empty.
function emptyText(key, drawn) {
  if (!key) return 'No metric was reported.';
  if (!drawn.length) return 'No trial is selected.';
  return `Nothing finite: no selected trial has a value of ${nameOf(key)} that can be drawn.`;
}

/** The hyperparameter, or the experiment, that a choice of the reader names; null for none. */
function groupingOf(state, name) {
  const {data} = state;
  if (name === 'experiment') {
    return {name, choices: [], text: (trial) => String(data.experimentOf(trial).id),
      value: (trial) => data.trials.experiment[trial]};
  }
  const axis = name.startsWith('hp.') && data.axes.find((one) => 'hp.' + one.name === name);
  if (!axis) return null;
  return {name: axis.name, choices: axis.choices, text: (trial) => data.hparamText(axis, trial),
    value: (trial) => axis.values[trial]};
}

/**
 * Groups of the visible trials: {names, places (by trial), omitted}. A number
 * with many values has four groups of as many trials.
 */
function groupTrials(state, {choices, text, value}) {
  const trials = [];
  for (let i = 0; i < state.visible.length; ++i) {
    if (state.visible[i] && text(i) !== '–') trials.push(i);
  }
  const values = new Map();
  for (const trial of trials) values.set(text(trial), value(trial));
  const last = (one) => (Number.isNaN(one) ? Infinity : one);
  const sorted = Float64Array.from(trials, value).filter(Number.isFinite).sort();
  if (values.size <= MAX_GROUPS || choices.length || !sorted.length) {
    const names = [...values].sort(([, a], [, b]) => last(a) - last(b)).map(([name]) => name);
    const shown = new Map(names.slice(0, MAX_GROUPS).map((name, i) => [name, i]));
    return {names: names.slice(0, MAX_GROUPS), omitted: Math.max(0, names.length - MAX_GROUPS),
      places: new Map(trials.filter((trial) => shown.has(text(trial))).map((trial) => [trial, shown.get(text(trial))]))};
  }
  const limits = [1, 2, 3].map((n) => sorted[Math.floor(n * sorted.length / 4)]);
  const ends = [sorted[0], ...limits, sorted[sorted.length - 1]].map((end) => formatNumber(end));
  return {omitted: 0, names: [0, 1, 2, 3].map((n) => `${ends[n]} to ${n < 3 ? 'below ' : ''}${ends[n + 1]}`),
    places: new Map(trials.filter((trial) => Number.isFinite(value(trial)))
        .map((trial) => [trial, limits.filter((limit) => value(trial) >= limit).length]))};
}

/** Curves of one metric, in training and validation. */
export class Curves extends Chart {
  constructor(state, own = null) {
    super(state, own || {id: 'curves', title: 'Curves', wide: true, height: 360, about:
      'The best ten trials, in color, and the others faint; metrics of training are dashed. ' +
      (state.data.experiments.length > 1 ? 'Colors are those of the experiments. ' : '') +
      'Drag a box to zoom, here and in every plot with two axes; a double click shows everything.'});
    this.legend = element('div', {class: 'legend'});
    if (own) return;
    this.card.insertBefore(this.legend, this.note);
    this.addColorKey(false);
    const length = lengthLabel(state.data);
    this.controls.append(
        choice('x', [['batches', length], ...length === 'epochs' ? [] : [['epochs', 'epochs']],
          ['time', 'time']], state.get('x'), (x) => state.set({x})),
        choice('smoothing', [['0', 'none'], ...['0.3', '0.6', '0.8', '0.9', '0.95', '0.98', '0.99'].map((one) => [one, one])],
            state.get('smooth'), (smooth) => state.set({smooth})),
        choice('metric of', [['', 'training and validation'], ['training', 'training'],
          ['validation', 'validation']], state.get('kinds'), (kinds) => state.set({kinds})));
    const groups = [...(state.data.experiments.length > 1 ? [['experiment', 'experiment']] : []),
      ...state.data.varyingAxes().map(({name}) => ['hp.' + name, name])];
    if (groups.length) {
      this.controls.append(choice('mean by', [['', 'no: each trial'], ...groups], state.get('group'),
          (group) => state.set({group})));
    }
  }

  /** The metric, and how many curves are drawn that have no color. */
  key() { return this.state.metric(); }
  get mostFaint() { return MAX_FAINT; }
  labelOf(key) { return metricLabel(this.state, key); }

  xOf(trial, series) {
    const experiment = this.data.experimentOf(trial);
    switch (this.state.get('x')) {
      case 'time': {
        const start = this.data.trials.started[trial] || 0;
        return (i) => series.milliseconds[i] / 1000 - start;  // of the trial
      }
      case 'epochs': {
        const each = experiment.metrics.batches_per_epoch || 1;
        return (i) => series.batches[i] / each;
      }
      default: return (i) => series.batches[i];
    }
  }

  // Curves of the visible trials, the best last so that they are drawn on top.
  collect(key) {
    const {data, state} = this;
    const goal = state.metric();
    const {order} = rankShares(state, state.valuesOf(goal), state.smallerIsBetter(goal));
    const ranks = new Map(order.slice(0, TOP).map((trial, i) => [trial, i]));
    for (const trial of state.pinned()) {
      if (!ranks.has(trial)) ranks.set(trial, Math.max(TOP, ranks.size));  // in color, too
    }
    const factor = Number(state.get('smooth')) || 0;
    const curves = [];
    // The metric of training beside that of validation, as long as one of them is there.
    const kinds = state.get('kinds') ? [state.get('kinds')] : ['training', 'validation'];
    const step = Math.ceil(state.shown / this.mostFaint);
    let seen = 0;
    for (let i = 0; i < data.trials.count; ++i) {
      if (!state.visible[i]) continue;
      if (state.get('x') === 'epochs' && !knowsEpochs(data.experimentOf(i))) continue;
      const rank = ranks.get(i) ?? -1;
      const hidden = rank < 0 && seen++ % step > 0;  // counts, but is not drawn
      for (const kind of kinds) {
        const series = data.series(i, kind + '/' + nameOf(key));
        if (!series) continue;
        const values = factor && !(hidden && !this.grouping) ? smoothed(series.value, factor) : series.value;
        curves.push({trial: i, rank, hidden, values, raw: factor ? series.value : null, kind, batches: series.batches, x: this.xOf(i, series)});
      }
    }
    const late = (one) => (one.rank < 0 ? 0 : 1000 - one.rank);
    curves.sort((a, b) => late(a) - late(b));
    this.step = step;
    return curves;
  }

  draw() {
    const {state} = this;
    const key = this.key();
    this.grouping = groupingOf(state, state.get('group'));
    this.bands = [];
    this.curves = [];
    const all = this.collect(key);
    const curves = all.filter(({hidden}) => !hidden);
    const log = state.get('log').includes('y');
    this.marks.length = 0;
    const xs = {low: Infinity, high: -Infinity};
    const [lows, highs] = [[], []];  // of each trial
    const left_out = {infinite: 0, notPositive: 0};
    let last = null;
    for (const {trial, values, x} of [...all].sort((a, b) => a.trial - b.trial)) {
      if (trial !== last) {
        lows.push(Infinity);
        highs.push(-Infinity);
        last = trial;
      }
      const n = lows.length - 1;
      for (let i = 0; i < values.length; ++i) {
        const value = values[i];
        if (!Number.isFinite(value)) {
          ++left_out.infinite;
          continue;
        }
        if (log && value <= 0) {
          ++left_out.notPositive;
          continue;
        }
        const place = x(i);
        if (place < xs.low) xs.low = place;
        if (place > xs.high) xs.high = place;
        if (value < lows[n]) lows[n] = value;
        if (value > highs[n]) highs[n] = value;
      }
    }
    const notes = [...this.omissions(left_out), ...this.unitNotes()];
    if (!(xs.low <= xs.high)) {
      return this.say([emptyText(key, this.data.valuesAtBest(key).filter((_, i) => state.visible[i])),
        ...notes].join(' '));
    }
    const {left, top, right, bottom} = this.box;
    const unit = state.get('x') === 'time' ? timeUnit(xs.high) : {seconds: 1};
    const x = scaleOf({low: xs.low / unit.seconds, high: xs.high / unit.seconds}, left, right);
    const ys = this.limits({low: Math.min(...lows), high: Math.max(...highs)}, lows, highs);
    const y = scaleOf({...ys, log}, bottom, top);
    notes.unshift(this.outlierNote(ys, 'trial'));
    this.zoomedScales(x, y, unit.seconds);
    const labels = {epochs: 'epochs', time: `${unit.name} since the start of the trial`};
    this.axes(x, y, {x: labels[state.get('x')] || lengthLabel(state.data),
      y: this.labelOf(key)});
    this.clip();
    if (this.grouping) {
      notes.unshift(this.drawGroups(all, x, y, unit.seconds));
      this.context.restore();
      return this.say(notes.join(' '));
    }
    this.drawCurves(curves, (place) => x(place / unit.seconds), y, log);
    this.context.restore();
    const trials = new Set(curves.map(({trial}) => trial)).size;
    const count = (keep) => new Set(curves.filter(keep).map(({trial}) => trial)).size;
    const colored = count(({rank}) => rank >= 0);
    const pinned = count(({rank}) => rank >= TOP);
    if (trials > colored && this.controls.childElementCount) {
      notes.unshift(`The best ${colored - pinned}${pinned ? ` and ${pinned} pinned` : ''} of ${state.shown} trials ` +
          `in color${this.step > 1 ? `, ${trials - colored} of the others` : ''}.`);
    }
    if (this.data.experiments.some((one) => one.metrics.thinned)) notes.push(THINNED);
    return this.say(notes.join(' '));
  }

  unitNotes() {
    const x = this.state.get('x');
    const different = x === 'batches' ? differentUnits(this.data) : '';
    const without = x === 'epochs' ? this.data.experiments.filter((one) => !knowsEpochs(one)) : [];
    return [different, without.length ?
      `Without epochs, not drawn: experiment ${without.map(({id}) => id).join(', ')}.` : '']
        .filter(Boolean);
  }

  // Draws the mean of each group, and a band of one standard deviation on either
  // side; a group of one trial is its curve. Returns what must be known to read it.
  drawGroups(all, x, y, unit) {
    const {context, box, grouping, state} = this;
    const made = [state.version, this.key(), ...['group', 'x', 'smooth', 'kinds', 'pins'].map((name) =>
      state.get(name))].join('\n');
    if (this.made !== made) {
      this.made = made;
      this.groups = groupTrials(state, grouping);
      this.computed = this.computeBands(all);
    }
    const {names, omitted, places} = this.groups;
    this.bands = this.computed;
    const place = (at) => x(at / unit);
    // A canvas draws nothing far beyond its edge, and a logarithm nothing below 0.
    const height = (value) => Math.min(Math.max(y(value), box.top - 1e5) || box.bottom + 1e3, box.bottom + 1e5);
    const finite = (value) => Number.isFinite(value) && Number.isFinite(y(value));
    for (const {group, kind, points} of this.bands) {
      context.fillStyle = context.strokeStyle = categoryColor(group);
      context.globalAlpha = 0.2;
      context.beginPath();
      for (const [at, mean, deviation] of points) context.lineTo(place(at), height(mean + deviation));
      for (const [at, mean, deviation] of [...points].reverse()) context.lineTo(place(at), height(mean - deviation));
      context.fill();
      context.globalAlpha = 1;
      context.lineWidth = 2;
      context.setLineDash(kind === 'training' ? [6, 3] : []);
      context.beginPath();
      for (const [at, mean] of points) if (finite(mean)) context.lineTo(place(at), height(mean));
      context.stroke();
    }
    context.setLineDash([]);
    const counts = names.map((_, group) => [...places.values()].filter((one) => one === group).length);
    patchChildren(this.legend, names.map((name, group) => {
      const key = element('span', {class: 'key', 'data-key': name}, element('span', {class: 'swatch'}),
          `${grouping.name} ${shorten(name, 60)}: ${countOf(counts[group], 'trial')}`);
      key.firstChild.style.borderColor = categoryColor(group);
      return key;
    }));
    return ['Lines: means; bands: one standard deviation on either side, of the trials of a group that got that far.',
      omitted ? `${MAX_GROUPS} of ${omitted + MAX_GROUPS} groups are shown.` : '',
      state.shown > places.size ? `${countOf(state.shown - places.size, 'trial')} in no group that is shown.` : '']
        .filter(Boolean).join(' ');
  }

  computeBands(all) {
    const groups = new Map();
    for (const one of all) {
      const group = this.groups.places.get(one.trial);
      if (group === undefined) continue;
      const key = `${one.kind} ${group}`;
      if (!groups.has(key)) groups.set(key, {group, kind: one.kind, curves: []});
      groups.get(key).curves.push(one);
    }
    return [...groups.values()].sort((a, b) => b.group - a.group).map(({group, kind, curves}) => ({group, kind,
      points: curves.length > 1 ? meanBand(curves) : Array.from(curves[0].values, (value, i) =>
        [curves[0].x(i), value, 0, 1])}));
  }

  /** Means of the groups at the pointer. */
  describe(px, py) {
    const {left, right, top, bottom} = this.box;
    if (!this.bands?.length || px < left || px > right || py < top || py > bottom) return '';
    const at = this.scales.x.invert(px) * this.scales.unit;
    const lines = this.bands.map(({group, kind, points}) => {
      const after = d3.bisector(([place]) => place).left(points, at);
      const [before, next] = [points[after - 1], points[after]];
      const point = !before || (next && next[0] - at < at - before[0]) ? next : before;
      return point && {group, kind, point};
    }).filter(Boolean).sort((a, b) => a.group - b.group);
    return lines.map(({group, kind, point: [place, mean, deviation, count]}) =>
      `${shorten(this.groups.names[group], 24)} ${kind}: ${formatNumber(mean)} ± ${formatNumber(deviation)} ` +
      `(${count}) at ${formatNumber(place / this.scales.unit)}`).join('\n');
  }

  drawCurves(curves, x, y, log) {
    const {context, data} = this;
    const faint = themeColor('ghost');
    const several = data.experiments.length > 1;
    const color = (trial, rank) => this.colorOf(trial, several ? experimentColor(data.trials.experiment[trial]) :
      categoryColor(rank));
    const meaning = several || this.colors;  // of colors, beside the rank
    // Draws one curve again, for highlight().
    this.drawAgain = (one) => this.drawCurve(one, (i) => x(one.x(i)), y, log, false);
    this.curves = curves;
    const keys = new Map();
    for (const one of curves) {
      const {trial, rank} = one;
      const best = rank >= 0;
      context.strokeStyle = best || meaning ? color(trial, rank) : faint;
      if (best && one.raw) {  // smoothed: the values themselves behind
        context.globalAlpha = 0.3;
        context.lineWidth = 1;
        context.setLineDash([]);
        this.drawCurve({...one, values: one.raw}, (i) => x(one.x(i)), y, log, false);
      }
      context.globalAlpha = best ? 1 : opacityOf(curves.length, Math.max(0.08, Math.min(0.6, 150 / curves.length)) / (meaning ? 2 : 1));
      context.lineWidth = best ? (meaning ? 2.6 : 1.8) : meaning ? 0.7 : 1;
      context.setLineDash(one.kind === 'training' ? [6, 3] :
        rank >= CATEGORIES && !meaning ? [2, 3] : []);
      this.drawCurve(one, (i) => x(one.x(i)), y, log, best || curves.length <= 400);
      if (best && !keys.has(rank)) keys.set(rank, this.keyOf(trial, color(trial, rank), !meaning && rank >= CATEGORIES));
    }
    patchChildren(this.legend, [...keys].sort(([a], [b]) => a - b).map(([, key]) => key));
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  highlight(trial) {
    if (!this.marks.length) return;
    this.clip();
    this.context.strokeStyle = themeColor('text');
    this.context.lineWidth = 3;
    for (const one of this.curves) if (one.trial === trial) this.drawAgain(one);
    this.context.restore();
  }

  facts(trial, [, , , one, i]) {
    const unit = this.data.experimentOf(trial).unit || 'batches';
    const time = this.state.get('x') === 'time' ? `, ${formatDuration(one.x(i))} since its start` : '';
    const rank = one.rank < 0 ? '' : one.rank >= TOP ? ', pinned' :
      `, number ${one.rank + 1} ${this.state.placeText()}`;
    return [`${one.kind} ${this.valueText(this.key(), one.values[i])} ` +
        `after ${lengthText(one.batches[i], unit)}${time}${rank}`];
  }

  tableOf() {
    if (this.bands.length) {
      const {unit} = this.scales;
      return {heads: [this.grouping.name, 'metric of', 'x', 'mean', 'standard deviation', 'trials'],
        rows: this.bands.flatMap(({group, kind, points}) => points.map(([place, mean, deviation, count]) =>
          [this.groups.names[group], kind, ...[place / unit, mean, deviation, count].map(formatNumber)]))};
    }
    const rows = [...this.curves || []].reverse().map(({trial, kind, values, x, batches}) => {
      const {low, high} = rangeOf(values) || {low: NaN, high: NaN};
      const last = values.length - 1;
      return [this.data.idOf(trial), kind, ...[values[0], low, high, values[last], batches[last], last + 1]
          .map(formatNumber)];
    });
    return {heads: ['trial', 'metric of', 'first', 'smallest', 'largest', 'last', 'last at', 'values'], rows};
  }

  // Draws one curve, a dot for a value that stands alone, and an arrow where it
  // leaves the axis. Remembers where it is for the pointer if it is `marked`.
  drawCurve(one, x, y, log, marked) {
    const {context, box} = this;
    const {values} = one;
    const arrows = [];
    // What is in sight, and one value more on either side.
    let [begin, end] = [0, values.length];
    while (begin + 1 < end && x(begin + 1) < box.left) ++begin;
    while (end - 1 > begin && x(end - 2) > box.right) --end;
    const points = end - begin <= 4 * this.width ? null :
      decimatedPoints(x, values, Math.ceil(this.width), begin, end);
    const count = points ? points.length : end - begin;
    context.beginPath();
    let length = 0;  // of the unbroken line so far
    let px = 0;
    let py = box.top;
    for (let n = 0; n <= count; ++n) {
      const i = points ? points[n] : begin + n;
      const value = n < count ? values[i] : NaN;
      if (!Number.isFinite(value) || (log && value <= 0)) {
        if (length === 1) context.rect(px - 1, py - 1, 2, 2);
        length = 0;
        continue;
      }
      px = x(i);
      const within = py >= box.top && py <= box.bottom;
      // Far beyond the edge a canvas draws nothing.
      py = Math.min(Math.max(y(value), box.top - 1e5), box.bottom + 1e5);
      if (within && (py < box.top || py > box.bottom)) arrows.push([px, py]);
      if (length++) context.lineTo(px, py);
      else context.moveTo(px, py);
      if (marked && !this.isOutside(px, py)) this.marks.push([px, py, one.trial, one, i]);
    }
    context.stroke();
    for (const at of arrows.slice(0, this.zoom ? 0 : 1)) this.dot(...at, context.strokeStyle);
  }

  keyOf(trial, color, dashed) {
    const id = this.data.idOf(trial);
    const key = element('button', {class: 'key', type: 'button', 'data-key': id,
      onclick: () => this.state.set({trial: id}),
      onpointermove: () => this.state.keyed || this.state.hover(trial),
      onpointerleave: () => this.state.keyed || this.state.hover(-1)},
    element('span', {class: dashed ? 'swatch dashed' : 'swatch'}), id);
    key.firstChild.style.borderColor = color;
    return key;
  }
}

/** Curves of one metric in the grid of all; colors are those of the best in the metric of the page. */
class MetricCurves extends Curves {
  constructor(state, name, key) {
    super(state, {id: 'metric-' + name, title: shorten(name, 80), height: 190});
    this.own = key;
    this.tools.prepend(element('button', {type: 'button', class: 'tool', title: 'show this metric in all plots',
      'aria-label': `show ${shorten(name, 80)} in all plots`, onclick: () => state.set({metric: key})}, 'Select'));
  }

  key() { return this.own; }
  get mostFaint() { return 100; }
  labelOf() { return ''; }
}

const GRID = 12;  // metrics, and more on request

/** Curves of all metrics, or those whose names contain what the reader looks for. */
export class MetricGrid {
  constructor(state) {
    this.state = state;
    this.charts = new Map();
    this.most = GRID;
    this.keys = new Map(state.data.metrics.map(({key, name}) => [name, key]));
    for (const {key, name} of [...state.data.metrics].reverse()) this.keys.set(name, key);  // rather of validation
    this.search = element('input', {type: 'search', placeholder: 'find metrics', 'aria-label': 'find metrics',
      oninput: ({target}) => state.set({find: target.value})});
    this.count = element('span', {class: 'fact'});
    this.more = element('button', {type: 'button', onclick: () => {
      this.most += GRID;
      this.redraw();
    }});
    this.legend = element('div', {class: 'legend fact'});
    this.grid = element('div', {class: 'slices'});
    this.card = element('section', {class: 'card wide', id: 'metrics', hidden: this.keys.size < 2},
        element('h2', {}, 'All metrics'), element('p', {class: 'about'},
            'Each metric in small, in the colors and with the axis and smoothing of the curves.'),
        element('div', {class: 'controls'}, this.search, this.count), this.legend, this.grid, this.more);
    state.onChange(() => this.redraw());
  }

  redraw() {
    const {state} = this;
    const wanted = state.get('find');
    if (document.activeElement !== this.search) this.search.value = wanted;
    const found = [...this.keys.keys()].filter((name) => name.toLowerCase().includes(wanted.toLowerCase()));
    const shown = this.keys.size < 2 ? [] : found.slice(0, this.most);
    for (const name of shown) {
      if (!this.charts.has(name)) this.charts.set(name, new MetricCurves(state, name, this.keys.get(name)));
    }
    const cards = shown.map((name) => this.charts.get(name).card);
    if (cards.length !== this.grid.children.length || cards.some((card, i) => card !== this.grid.children[i])) {
      this.grid.replaceChildren(...cards);
    }
    this.drawn = shown.map((name) => this.charts.get(name));
    this.count.textContent = `${shown.length} of ${countOf(this.keys.size, 'metric')}`;
    this.more.hidden = found.length === shown.length;
    this.more.textContent = `Show ${Math.min(GRID, found.length - shown.length)} more`;
    showColors(this.legend, state, false);
  }
}

/** Share of trials that reached a value. */
export class Distribution extends Chart {
  constructor(state) {
    super(state, {id: 'distribution', title: 'Distribution', about:
      'For each value: the share of the trials whose value is at most this large (EDF).'});
  }

  draw() {
    const {data, state} = this;
    const key = state.metric();
    const values = state.valuesOf(key);
    const log = state.get('log').includes('y');
    this.curves = [];
    const drawn = values.filter((_, i) => state.visible[i]);
    const range = this.limits(rangeOf(drawn, () => true, log), drawn);
    if (!range) return this.say(emptyText(key, drawn));
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({...range, log}, left, right);
    const y = scaleOf({low: 0, high: 1}, bottom, top);
    this.zoomedScales(x, y);
    this.axes(x, y, {x: metricLabel(state, key), y: 'share of trials with at most this value'});
    // An outlier is beyond the edge, an infinite value at it.
    const inside = (value) => (log && value <= 0 ? left :
      Math.min(right + (Number.isFinite(value) ? 20 : 0), Math.max(left, x(value))));
    this.clip();
    for (const experiment of data.experiments) {
      const own = values.subarray(experiment.first, experiment.first + experiment.count)
          .filter((_, i) => state.visible[experiment.first + i]);
      const points = distributionOf(own);
      this.curves.push({experiment, points, x});
      const {context} = this;
      context.strokeStyle = experimentColor(experiment.index);
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(left, y(0));
      let share = 0;
      for (const [value, next] of points) {
        context.lineTo(inside(value), y(share));
        if (value < Infinity) context.lineTo(inside(value), y(next));
        share = next;
      }
      context.stroke();
      const beyond = points.find(([value]) => Number.isFinite(value) && inside(value) > right);
      if (beyond && !this.zoom) {
        const before = points[points.indexOf(beyond) - 1];
        this.dot(right + 20, y(before ? before[1] : 0), experimentColor(experiment.index));
      }
    }
    this.context.restore();
    const {infinite, notPositive} = omitted(drawn, log);
    return this.say([this.outlierNote(range, 'trial').replace('above', 'right of').replace('below', 'left of')
        .replace('▲', '▶').replace('▼', '◀'), infinite ? `${countOf(infinite, 'value')} not finite: the curve does not ` +
      'begin at 0 or not end at 1.' : '', notPositive ? `${countOf(notPositive, 'value')} not ` +
      'positive: the curve begins above 0.' : ''].filter(Boolean).join(' '));
  }

  find() { return -1; }

  tableOf() {
    return {heads: ['experiment', 'value', 'share of trials with at most this value'],
      rows: this.curves.flatMap(({experiment, points}) => {
        const step = Math.ceil(points.length / 50);
        return points.filter((_, i) => i % step === 0 || i === points.length - 1).map(([value, share]) =>
          [String(experiment.id), formatNumber(value), `${(share * 100).toFixed(1)} %`]);
      })};
  }

  describe(px, py) {
    const {left, right, top, bottom} = this.box;
    if (px < left || px > right || py < top || py > bottom) return '';
    return this.curves.map(({experiment, points, x}) => {
      const value = x.invert(px);
      const [, share] = points[d3.bisectRight(points.map(([one]) => one), value) - 1] || [0, 0];
      return `${experiment.id}: ${(share * 100).toFixed(1)} % at most ${formatNumber(value)}`;
    }).join('\n');
  }
}

/** Two metrics against each other, with the trials that no other dominates. */
export class Pareto extends Chart {
  constructor(state) {
    super(state, {id: 'pareto', title: 'Two metrics', height: 320, about:
      'Each trial’s values at its best validation. The line joins the trials that no other one ' +
      'beats in both metrics (Pareto front).'});
    const options = state.data.metrics.map((one) => [one.key, `${one.name} (${one.kind})`]);
    const set = (which) => (key) => {
      const pair = this.chosen();
      pair[which] = key;
      state.set({pareto: pair.join('|')});
    };
    const [a, b] = this.chosen();
    if (b) this.controls.append(choice('x', options, a, set(0)), choice('y', options, b, set(1)));
    this.direction = element('span', {class: 'controls'});
    this.controls.append(this.direction);
    this.addColorKey(false);
  }

  chosen() {
    const {metrics} = this.data;
    const wanted = this.state.get('pareto').split('|')
        .filter((key) => metrics.some((one) => one.key === key));
    if (wanted.length === 2) return wanted;
    const main = this.state.metric();
    const other = metrics.find((one) => one.key !== main && one.kind === 'validation') ||
        metrics.find((one) => one.key !== main);
    return other ? [main, other.key] : [main];
  }

  facts(trial) {
    return this.chosen().map((key) => this.valueText(key, this.state.valuesOf(key)[trial]));
  }

  draw() {
    const {data, state} = this;
    const keys = this.chosen();
    this.marks.length = 0;
    this.front = [];
    if (keys.length < 2) return this.say('The trials report one metric only.');
    patchChildren(this.direction, keys.map((key, k) => directionChoice(state, key, 'xy'[k] + ': ')));
    const [xs, ys] = keys.map((key) => state.valuesOf(key));
    const both = (i) => state.visible[i] && Number.isFinite(xs[i]) && Number.isFinite(ys[i]);
    const [xRange, yRange] = [xs, ys].map((values) => this.limits(rangeOf(values, both), values.filter((_, i) => both(i))));
    if (!xRange) return this.say('Nothing finite: no selected trial has finite values of both.');
    const {left, top, right, bottom} = this.box;
    const [x, y] = [scaleOf(xRange, left, right), scaleOf(yRange, bottom, top)];
    for (const [scale, range] of [[x, xRange], [y, yRange]]) if (range.above === undefined) scale.nice();
    this.zoomedScales(x, y);
    const signs = keys.map((key) => (state.smallerIsBetter(key) ? 1 : -1));
    this.axes(x, y, {x: metricLabel(state, keys[0]), y: metricLabel(state, keys[1])});
    const points = [];
    const trials = [];
    for (let i = 0; i < data.trials.count; ++i) {
      if (!both(i)) continue;
      trials.push(i);
      points.push([xs[i] * signs[0], ys[i] * signs[1]]);
    }
    const unknown = directionNote(state, keys, 'the front is drawn');
    const front = unknown ? [] : paretoFront(points).map((p) => trials[p]);
    this.front = front;
    const {context} = this;
    for (const i of trials) {
      context.globalAlpha = opacityOf(trials.length, 0.45);
      const at = this.dot(x(xs[i]), y(ys[i]), this.colorOf(i, experimentColor(data.trials.experiment[i])), trials.length > 2000 ? 1.5 : 3);
      context.globalAlpha = 1;
      this.marks.push([...at, i]);
    }
    this.clip();
    context.strokeStyle = themeColor('text');
    context.lineWidth = 1.5;
    context.beginPath();
    front.forEach((i, n) => (n ? context.lineTo(x(xs[i]), y(ys[i])) : context.moveTo(x(xs[i]), y(ys[i]))));
    context.stroke();
    context.restore();
    for (const i of front) this.dot(x(xs[i]), y(ys[i]), themeColor('text'), 3.5);
    const beyond = {below: (xRange.below || 0) + (yRange.below || 0), above: (xRange.above || 0) + (yRange.above || 0)};
    const others = state.shown - trials.length;
    return this.say((unknown || `${front.length} of ${trials.length} trials are on the front.`) + ' ' +
      this.outlierNote(beyond, 'value').replace(/ (▲|▼)/g, '') + (others ? ` ${countOf(others, 'trial')} without finite values of both, not drawn.` : ''));
  }
}
