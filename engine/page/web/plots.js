// Plots of trials' values: history, curves, distribution, Pareto front. Each
// one draws the visible trials of the state, and says below itself what it
// leaves out: values that are not finite or that a logarithmic axis cannot show
// are counted, never dropped silently. A curve of many more points than pixels
// is drawn by the first, lowest, highest and last one in each pixel
// (decimatedPoints), which looks the same. What History computes is kept until
// the metric, the effort or the selection changes.

/* global d3 */

import {bestSoFar, decimatedPoints, distributionOf, effortsOf, paretoFront, smoothed}
  from './analysis.js';
import {Chart, PALETTE, choice, countOf, differentUnits, directionButton, element,
  experimentColor, knowsEpochs, lengthLabel, metricLabel, nameOf, rangeOf, rankShares, scaleOf,
  themeColor, timeUnit} from './chart.js';
import {formatNumber} from './data.js';

const TOP = 10;  // curves in color
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
  }

  // What is drawn of an experiment; kept, since pointing at a trial draws again.
  historyOf(experiment, key, effort) {
    const made = [key, effort, this.state.version, this.state.smallerIsBetter(key)].join();
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
    const line = bestSoFar(efforts, seen.values, state.smallerIsBetter(key));
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
    const range = rangeOf([...drawn, ...all.flatMap(({line}) => line.map(([, value]) => value))],
        () => true, log);
    const notes = this.notesOf(all, drawn, log);
    if (!range) return this.say([emptyText(key, drawn), ...notes].join(' '));
    const {left, top, right, bottom} = this.box;
    const full = Math.max(...all.map((one) => one.full), 1e-9);
    const unit = effort === 'seconds' ? timeUnit(full) : {seconds: 1};
    const labels = {trials: 'trials that have reported', seconds:
      `${unit.name} since the start of the experiment`};
    const x = scaleOf({low: 0, high: full / unit.seconds * 1.01}, left, right);
    const y = scaleOf({...range, log}, bottom, top);
    y.nice();
    this.axes(x, y, {y: metricLabel(state, key), x: labels[effort] ||
      `${lengthLabel(data)} of all trials together`});
    this.clip();
    for (const experiment of data.experiments) {
      const {line, places, failures} = all[experiment.index];
      const color = experimentColor(experiment.index);
      this.context.globalAlpha = 0.55;
      for (const [i, place] of places) {
        if (!Number.isFinite(values[i]) || (log && values[i] <= 0)) continue;
        const [px, py] = [x(place / unit.seconds), y(values[i])];
        this.dot(px, py, color, data.trials.count > 2000 ? 1.5 : 3);
        this.marks.push([px, py, i]);
      }
      this.context.globalAlpha = 1;
      for (const [place, i] of failures) {
        const has = Number.isFinite(values[i]) && !(log && values[i] <= 0);
        const [px, py] = [x(place / unit.seconds), has ? y(values[i]) : bottom - 5];
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

/** Curves of one metric; wheel and drag zoom, a double click goes back. */
export class Curves extends Chart {
  constructor(state) {
    super(state, {id: 'curves', title: 'Curves', wide: true, height: 360, about:
      'The best ten trials in color, the others faint; metrics of training are dashed. Wheel and ' +
      'drag zoom; a double click shows everything.'});
    const own = lengthLabel(state.data);
    this.controls.append(
        choice('x', [['batches', own], ...own === 'epochs' ? [] : [['epochs', 'epochs']],
          ['time', 'time']], state.get('x'), (x) => state.set({x})),
        choice('smoothing', [['0', 'none'], ['0.6', '0.6'], ['0.9', '0.9'], ['0.98', '0.98']],
            state.get('smooth'), (smooth) => state.set({smooth})));
    this.legend = element('div', {class: 'legend'});
    this.card.insertBefore(this.legend, this.note);
    this.zoomed = d3.zoomIdentity;
    this.zoom = d3.zoom().scaleExtent([1, 200]).on('zoom', () => {
      this.zoomed = d3.event.transform;
      this.redraw();
    });
    d3.select(this.plot).call(this.zoom).on('dblclick.zoom', () => {
      d3.select(this.plot).call(this.zoom.transform, d3.zoomIdentity);
    });
  }

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
    const {order} = rankShares(state, data.valuesAtBest(state.metric()),
        state.smallerIsBetter(state.metric()));
    const ranks = new Map(order.slice(0, TOP).map((trial, i) => [trial, i]));
    const factor = Number(state.get('smooth')) || 0;
    const curves = [];
    for (let i = 0; i < data.trials.count; ++i) {
      if (!state.visible[i]) continue;
      if (state.get('x') === 'epochs' && !knowsEpochs(data.experimentOf(i))) continue;
      const series = data.series(i, key);
      if (!series) continue;
      const values = factor ? smoothed(series.value, factor) : series.value;
      curves.push({trial: i, rank: ranks.get(i) ?? -1, values, x: this.xOf(i, series)});
    }
    const late = (one) => (one.rank < 0 ? 0 : TOP - one.rank);
    curves.sort((a, b) => late(a) - late(b));
    return curves;
  }

  draw() {
    const {state} = this;
    const key = state.metric();
    const curves = this.collect(key);
    const log = state.get('log').includes('y');
    this.legend.replaceChildren();
    this.marks.length = 0;
    const xs = {low: Infinity, high: -Infinity};
    const ys = {low: Infinity, high: -Infinity};
    const left_out = {infinite: 0, notPositive: 0};
    for (const {values, x} of curves) {
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
        if (value < ys.low) ys.low = value;
        if (value > ys.high) ys.high = value;
      }
    }
    const notes = [...this.omissions(left_out), ...this.unitNotes()];
    if (!(xs.low <= xs.high)) {
      return this.say([emptyText(key, this.data.valuesAtBest(key).filter((_, i) => state.visible[i])),
        ...notes].join(' '));
    }
    const {left, top, right, bottom} = this.box;
    const unit = state.get('x') === 'time' ? timeUnit(xs.high) : {seconds: 1};
    const x = this.zoomed.rescaleX(scaleOf(
        {low: xs.low / unit.seconds, high: xs.high / unit.seconds}, left, right));
    const whole = scaleOf({...ys, log}, bottom, top);
    const y = log ? whole : this.zoomed.rescaleY(whole);
    const labels = {epochs: 'epochs', time: `${unit.name} since the start of the trial`};
    this.axes(x, y, {x: labels[state.get('x')] || lengthLabel(state.data),
      y: metricLabel(state, key)});
    this.clip();
    this.drawCurves(curves, (place) => x(place / unit.seconds), y, log, key.startsWith('training/'));
    this.context.restore();
    const colored = curves.filter((one) => one.rank >= 0).length;
    if (curves.length > colored) notes.unshift(`${colored} of ${curves.length} trials in color.`);
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

  drawCurves(curves, x, y, log, dashed) {
    const {context} = this;
    const faint = themeColor('faint');
    // Draws one curve again, for highlight().
    this.drawAgain = (one) => this.drawCurve(one.values, (i) => x(one.x(i)), y, log, -1);
    this.curves = curves;
    for (const {trial, rank, values, x: place} of curves) {
      context.strokeStyle = rank >= 0 ? PALETTE[rank % PALETTE.length] : faint;
      context.globalAlpha = rank >= 0 ? 1 : Math.max(0.08, Math.min(0.6, 150 / curves.length));
      context.lineWidth = rank >= 0 ? 1.8 : 1;
      context.setLineDash(dashed ? [6, 3] : rank >= PALETTE.length ? [2, 3] : []);
      this.drawCurve(values, (i) => x(place(i)), y, log,
          rank >= 0 || curves.length <= 200 ? trial : -1);
      if (rank >= 0) this.addLegend(trial, rank);
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  highlight(trial) {
    const one = this.marks.length ? this.curves.find((curve) => curve.trial === trial) : null;
    if (!one) return;
    this.clip();
    this.context.strokeStyle = themeColor('text');
    this.context.lineWidth = 3;
    this.drawAgain(one);
    this.context.restore();
  }

  // Draws one curve, and a dot for a value that stands alone. Notes where it is
  // for the pointer, unless `trial` is −1.
  drawCurve(values, x, y, log, trial) {
    const {context, box} = this;
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
    let py = 0;
    for (let n = 0; n <= count; ++n) {
      const i = points ? points[n] : begin + n;
      const value = n < count ? values[i] : NaN;
      if (!Number.isFinite(value) || (log && value <= 0)) {
        if (length === 1) context.rect(px - 1, py - 1, 2, 2);
        length = 0;
        continue;
      }
      px = x(i);
      py = y(value);
      if (length++) context.lineTo(px, py);
      else context.moveTo(px, py);
      if (trial >= 0) this.marks.push([px, py, trial]);
    }
    context.stroke();
  }

  addLegend(trial, rank) {
    const key = element('button', {class: 'key', type: 'button',
      onclick: () => this.state.set({trial: this.data.idOf(trial)}),
      onpointermove: () => this.state.keyed || this.state.hover(trial),
      onpointerleave: () => this.state.keyed || this.state.hover(-1)},
    element('span', {class: rank >= PALETTE.length ? 'swatch dashed' : 'swatch'}),
    this.data.idOf(trial));
    key.firstChild.style.borderColor = PALETTE[rank % PALETTE.length];
    this.legend.prepend(key);
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
    const values = data.valuesAtBest(key);
    const log = state.get('log').includes('y');
    this.curves = [];
    const drawn = values.filter((_, i) => state.visible[i]);
    const range = rangeOf(drawn, () => true, log);
    if (!range) return this.say(emptyText(key, drawn));
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({...range, log}, left, right);
    const y = scaleOf({low: 0, high: 1}, bottom, top);
    this.axes(x, y, {x: metricLabel(state, key), y: 'share of trials with at most this value'});
    const inside = (value) => (log && value <= 0 ? left :
      Math.min(right, Math.max(left, x(value))));
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
    }
    this.context.restore();
    const {infinite, notPositive} = omitted(drawn, log);
    return this.say([infinite ? `${countOf(infinite, 'value')} not finite: the curve does not ` +
      'begin at 0 or not end at 1.' : '', notPositive ? `${countOf(notPositive, 'value')} not ` +
      'positive: the curve begins above 0.' : ''].filter(Boolean).join(' '));
  }

  find() { return -1; }

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

  draw() {
    const {data, state} = this;
    const keys = this.chosen();
    this.direction.replaceChildren();
    this.marks.length = 0;
    if (keys.length < 2) return this.say('The trials report one metric only.');
    const [xs, ys] = keys.map((key) => data.valuesAtBest(key));
    const both = (i) => state.visible[i] && Number.isFinite(xs[i]) && Number.isFinite(ys[i]);
    const [xRange, yRange] = [rangeOf(xs, both), rangeOf(ys, both)];
    if (!xRange) return this.say('Nothing finite: no selected trial has finite values of both.');
    const {left, top, right, bottom} = this.box;
    const x = scaleOf(xRange, left, right);
    const y = scaleOf(yRange, bottom, top);
    x.nice();
    y.nice();
    const signs = keys.map((key) => (state.smallerIsBetter(key) ? 1 : -1));
    keys.forEach((key, k) => this.direction.append(directionButton(state, key, 'xy'[k] + ': ')));
    this.axes(x, y, {x: metricLabel(state, keys[0]), y: metricLabel(state, keys[1])});
    const points = [];
    const trials = [];
    for (let i = 0; i < data.trials.count; ++i) {
      if (!both(i)) continue;
      trials.push(i);
      points.push([xs[i] * signs[0], ys[i] * signs[1]]);
    }
    const front = paretoFront(points).map((p) => trials[p]);
    this.front = front;
    const {context} = this;
    for (const i of trials) {
      const [px, py] = [x(xs[i]), y(ys[i])];
      context.globalAlpha = 0.45;
      this.dot(px, py, experimentColor(data.trials.experiment[i]), trials.length > 2000 ? 1.5 : 3);
      context.globalAlpha = 1;
      this.marks.push([px, py, i]);
    }
    context.strokeStyle = themeColor('text');
    context.lineWidth = 1.5;
    context.beginPath();
    front.forEach((i, n) => (n ? context.lineTo(x(xs[i]), y(ys[i])) : context.moveTo(x(xs[i]), y(ys[i]))));
    context.stroke();
    for (const i of front) this.dot(x(xs[i]), y(ys[i]), themeColor('text'), 3.5);
    const others = state.shown - trials.length;
    return this.say(`${front.length} of ${trials.length} trials are on the front.` +
      (others ? ` ${countOf(others, 'trial')} without finite values of both, not drawn.` : ''));
  }
}
