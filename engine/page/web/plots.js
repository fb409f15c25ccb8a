// The kinds of plots. Each one draws the visible trials of the state.

/* global d3 */

import {Chart, PALETTE, choice, drawAxis, element, rangeOf, rankColor, rankShares, scaleOf,
  shorten, themeColor} from './chart.js';
import {formatDuration, formatNumber, textOf} from './data.js';

const TOP = 10;  // curves in color

/** Name of a metric by its key. */
export const nameOf = (key) => key.slice(key.indexOf('/') + 1);

export function experimentColor(index) { return PALETTE[index % PALETTE.length]; }

const namesOf = (axis) => (axis.choices.length ? axis.choices.map(textOf) : null);

/** The best value so far, and each trial's own. */
export class History extends Chart {
  constructor(state) {
    super(state, {id: 'history', title: 'History', about:
      'Each trial’s value at its best validation, in the order of their starts, and the best so ' +
      'far. Crosses: trials that failed.'});
  }

  draw() {
    const {data, state} = this;
    const key = state.metric();
    const smaller = state.smallerIsBetter(key);
    const values = data.valuesAtBest(key);
    const log = state.get('log').includes('y');
    const range = rangeOf(values, (i) => state.visible[i], log);
    this.marks.length = 0;
    if (!range) return this.say(`No visible trial has a finite value of ${nameOf(key)}.`);
    let most = 1;
    for (const one of data.experiments) most = Math.max(most, one.count);
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({low: 0, high: most}, left, right);
    const y = scaleOf({...range, log}, bottom, top);
    y.nice();
    this.axes(x, y, {x: 'trial', y: nameOf(key)});
    this.clip();
    const radius = data.trials.count > 2000 ? 1.5 : 3;
    for (const experiment of data.experiments) {
      const color = experimentColor(experiment.index);
      let best = NaN;
      const line = [];
      for (let n = 0; n < experiment.count; ++n) {
        const i = experiment.first + n;
        if (!state.visible[i]) continue;
        const place = x(n + 1);
        if (data.stateOf(i) === 'ERROR') this.cross(place, bottom - 5, color);
        const value = values[i];
        if (!Number.isFinite(value) || (log && value <= 0)) continue;
        if (Number.isNaN(best) || (smaller ? value < best : value > best)) best = value;
        line.push([place, y(best)]);
        this.context.globalAlpha = 0.55;
        this.dot(place, y(value), color, radius);
        this.context.globalAlpha = 1;
        if (i === state.hovered) this.ring(place, y(value));
        this.marks.push([place, y(value), i]);
      }
      this.steps(line, color);
    }
    this.context.restore();
    return undefined;
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

// Exponential moving average; a gap (NaN) is left out.
function smoothed(values, factor) {
  const result = new Float64Array(values.length);
  let mean = NaN;
  for (let i = 0; i < values.length; ++i) {
    const value = values[i];
    if (Number.isFinite(value)) {
      mean = Number.isNaN(mean) ? value : factor * mean + (1 - factor) * value;
    }
    result[i] = Number.isFinite(value) ? mean : value;
  }
  return result;
}

/** Curves of one metric; wheel and drag zoom, a double click goes back. */
export class Curves extends Chart {
  constructor(state) {
    super(state, {id: 'curves', title: 'Curves', wide: true, height: 360, about:
      'The best ten trials in color, the others faint. Wheel and drag zoom; a double click ' +
      'shows everything.'});
    this.controls.append(
        choice('x', [['batches', state.data.experiments[0]?.unit || 'batches'],
          ['epochs', 'epochs'], ['time', 'time']], state.get('x'), (x) => state.set({x})),
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
        return (i) => series.milliseconds[i] / 1000 - start;
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
    const smaller = state.smallerIsBetter(key);
    const {order} = rankShares(state, data.valuesAtBest(state.metric()),
        state.smallerIsBetter(state.metric()));
    const ranks = new Map(order.slice(0, TOP).map((trial, i) => [trial, i]));
    const factor = Number(state.get('smooth')) || 0;
    const curves = [];
    for (let i = 0; i < data.trials.count; ++i) {
      if (!state.visible[i]) continue;
      const series = data.series(i, key);
      if (!series) continue;
      const values = factor ? smoothed(series.value, factor) : series.value;
      curves.push({trial: i, rank: ranks.get(i) ?? -1, values, x: this.xOf(i, series)});
    }
    const late = (one) => (one.rank < 0 ? 0 : TOP - one.rank);
    curves.sort((a, b) => late(a) - late(b));
    return {curves, smaller};
  }

  draw() {
    const {state} = this;
    const key = state.metric();
    const {curves} = this.collect(key);
    const log = state.get('log').includes('y');
    this.legend.replaceChildren();
    this.marks.length = 0;
    const xs = {low: Infinity, high: -Infinity};
    const ys = {low: Infinity, high: -Infinity};
    for (const {values, x} of curves) {
      for (let i = 0; i < values.length; ++i) {
        const value = values[i];
        if (!Number.isFinite(value) || (log && value <= 0)) continue;
        const place = x(i);
        if (place < xs.low) xs.low = place;
        if (place > xs.high) xs.high = place;
        if (value < ys.low) ys.low = value;
        if (value > ys.high) ys.high = value;
      }
    }
    if (!(xs.low <= xs.high)) return this.say(`No visible trial has a finite value of ${nameOf(key)}.`);
    const {left, top, right, bottom} = this.box;
    const x = this.zoomed.rescaleX(scaleOf(xs, left, right));
    const whole = scaleOf({...ys, log}, bottom, top);
    const y = log ? whole : this.zoomed.rescaleY(whole);
    const labels = {batches: state.data.experiments[0].unit, epochs: 'epochs', time: 'seconds'};
    this.axes(x, y, {x: labels[state.get('x')] || 'batches', y: nameOf(key)});
    this.clip();
    this.drawCurves(curves, x, y, log, key.startsWith('training/'));
    this.context.restore();
    const colored = curves.filter((one) => one.rank >= 0).length;
    this.say(curves.length > colored ?
        `${colored} of ${curves.length} trials in color.` : '');
    return undefined;
  }

  drawCurves(curves, x, y, log, dashed) {
    const {context, state} = this;
    const faint = themeColor('faint');
    for (const {trial, rank, values, x: place} of curves) {
      const hovered = trial === state.hovered;
      context.strokeStyle = hovered ? themeColor('text') :
          rank >= 0 ? PALETTE[rank % PALETTE.length] : faint;
      context.globalAlpha = rank >= 0 || hovered ? 1 : curves.length > 500 ? 0.25 : 0.6;
      context.lineWidth = hovered ? 3 : rank >= 0 ? 1.8 : 1;
      context.setLineDash(dashed ? [6, 3] : rank >= PALETTE.length ? [2, 3] : []);
      context.beginPath();
      let open = false;
      let end = null;
      // At most two points a pixel: the eye sees no more.
      const step = Math.max(1, Math.floor(values.length / (2 * this.width)));
      for (let i = 0; i < values.length; i += step) {
        const value = values[i];
        if (!Number.isFinite(value) || (log && value <= 0)) {
          open = false;
          continue;
        }
        const [px, py] = [x(place(i)), y(value)];
        if (open) context.lineTo(px, py);
        else context.moveTo(px, py);
        open = true;
        end = [px, py];
        if (rank >= 0 || curves.length <= 200) this.marks.push([px, py, trial]);
      }
      context.stroke();
      if (end && values.length === 1) this.dot(...end, context.strokeStyle, 2.5);
      if (rank >= 0) this.addLegend(trial, rank);
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  addLegend(trial, rank) {
    const key = element('button', {class: 'key', type: 'button',
      onclick: () => this.state.set({trial: this.data.idOf(trial)}),
      onpointerenter: () => this.state.hover(trial),
      onpointerleave: () => this.state.hover(-1)},
    element('span', {class: rank >= PALETTE.length ? 'swatch dashed' : 'swatch'}),
    this.data.idOf(trial));
    key.firstChild.style.borderColor = PALETTE[rank % PALETTE.length];
    this.legend.prepend(key);
  }
}

/** Parallel coordinates: a line a trial over all axes. */
export class Parallel extends Chart {
  constructor(state) {
    super(state, {id: 'parallel', title: 'Parallel coordinates', wide: true, height: 360, about:
      'Drag along an axis to select a range, drag a name to reorder, double click a name to turn ' +
      'its axis round. Colors: rank by the metric.'});
    this.margin = {top: 40, right: 40, bottom: 20, left: 40};
  }

  axisList() {
    const {data, state} = this;
    const key = state.metric();
    const all = data.axes.filter((axis) => axis.high > axis.low).map((axis) => ({
      ...axis, name: 'hp.' + axis.name, label: axis.name, names: namesOf(axis),
      text: (value) => data.axisText(axis, value)}));
    const values = data.valuesAtBest(key);
    const range = rangeOf(values) || {low: 0, high: 1};
    all.push({name: key, label: nameOf(key), values, ...range, names: null, text: formatNumber,
      log: state.get('log').includes('y') && range.low > 0});
    const order = state.get('order').split('|').filter(Boolean);
    const turned = new Set(order.filter((one) => one.startsWith('!')).map((one) => one.slice(1)));
    const place = new Map(order.map((one, i) => [one.replace(/^!/, ''), i]));
    all.forEach((axis, i) => {
      axis.turned = turned.has(axis.name);
      axis.place = place.get(axis.name) ?? order.length + i;
    });
    return all.sort((a, b) => a.place - b.place).slice(0, 24);
  }

  draw() {
    const {data, state} = this;
    const axes = this.axisList();
    this.svg.selectAll('.parallel-axis').remove();
    this.marks.length = 0;
    if (axes.length < 2) return this.say('The search varies no hyperparameter.');
    const {left, top, right, bottom} = this.box;
    axes.forEach((axis, i) => {
      axis.x = left + (right - left) * i / (axes.length - 1);
      axis.scale = scaleOf(axis, axis.turned ? top : bottom, axis.turned ? bottom : top);
    });
    const {shares, order} = rankShares(state, data.valuesAtBest(state.metric()),
        state.smallerIsBetter(state.metric()));
    this.context.lineWidth = order.length > 2000 ? 0.6 : 1.2;
    this.context.globalAlpha = order.length > 2000 ? 0.35 : order.length > 200 ? 0.6 : 0.9;
    for (let n = order.length - 1; n >= 0; --n) {  // the best on top
      this.drawLine(axes, order[n], rankColor(shares[order[n]]));
    }
    this.context.globalAlpha = 1;
    if (state.hovered >= 0 && state.visible[state.hovered]) {
      this.context.lineWidth = 3;
      this.drawLine(axes, state.hovered, themeColor('text'));
    }
    axes.forEach((axis, i) => this.drawParallelAxis(axes, i));
    const omitted = data.axes.filter((axis) => axis.high > axis.low).length + 1 - axes.length;
    const missing = state.shown - order.length;
    this.say([omitted > 0 ? `${omitted} hyperparameters are left out.` : '',
      missing > 0 ? `${missing} trials without a finite value are not drawn.` : '']
        .filter(Boolean).join(' '));
    return undefined;
  }

  drawLine(axes, trial, color) {
    const {context} = this;
    context.strokeStyle = color;
    context.beginPath();
    let open = false;
    for (const axis of axes) {
      const value = axis.values[trial];
      if (!Number.isFinite(value)) {
        open = false;
        continue;
      }
      const y = axis.scale(value);
      if (open) context.lineTo(axis.x, y);
      else context.moveTo(axis.x, y);
      open = true;
    }
    context.stroke();
  }

  drawParallelAxis(axes, i) {
    const axis = axes[i];
    const {top, bottom} = this.box;
    const group = this.svg.append('g').attr('class', 'parallel-axis');
    drawAxis(group, axis.scale, 'left', {at: axis.x, length: bottom - top, names: axis.names});
    const room = Math.max(6, Math.floor((this.width / axes.length) / 7));
    const label = group.append('text').attr('class', 'axis-label movable').attr('x', axis.x)
        .attr('y', i % 2 && axes.length > 8 ? 30 : 16)
        .attr('text-anchor', i === 0 ? 'start' : i === axes.length - 1 ? 'end' : 'middle')
        .attr('dx', i === 0 ? -30 : i === axes.length - 1 ? 30 : 0)
        .text(shorten(axis.label, room) + (axis.turned ? ' ↓' : ''));
    label.append('title').text(axis.label);
    label.on('dblclick', () => this.turn(axes, i));
    label.call(d3.drag().on('start', () => { this.busy = true; }).on('end', () => {
      this.busy = false;
      if (Math.abs(d3.event.x - axis.x) > 10) this.move(axes, i, d3.event.x);
    }));
    const brush = d3.brushY().extent([[axis.x - 10, top], [axis.x + 10, bottom]])
        .on('start', () => { this.busy = true; })
        .on('end', () => this.brushed(axis));
    const range = this.state.brushes()[axis.name];
    const brushed = group.append('g').attr('class', 'brush').call(brush);
    if (range) {
      const ends = range.map(axis.scale).sort((a, b) => a - b);
      brushed.call(brush.move, [Math.max(top, ends[0]), Math.min(bottom, ends[1])]);
    }
  }

  brushed(axis) {
    this.busy = false;
    const chosen = d3.event.selection;
    if (!d3.event.sourceEvent) return;  // moved by drawing
    this.state.setBrush(axis.name, chosen ?
        chosen.map(axis.scale.invert).sort((a, b) => a - b) : null);
  }

  saveOrder(axes) {
    this.state.set({order: axes.map((one) => (one.turned ? '!' : '') + one.name).join('|')});
  }

  turn(axes, i) {
    axes[i].turned = !axes[i].turned;
    this.saveOrder(axes);
  }

  move(axes, i, x) {
    const [moved] = axes.splice(i, 1);
    const at = axes.findIndex((one) => one.x > x);
    axes.splice(at < 0 ? axes.length : at, 0, moved);
    this.saveOrder(axes);
  }
}

/** Importance of the hyperparameters, computed by dtrain (PED-ANOVA). */
export class Importance extends Chart {
  constructor(state) {
    super(state, {id: 'importance', title: 'Importance', about:
      'How much a hyperparameter matters for being among the best tenth (PED-ANOVA), over all ' +
      'trials of an experiment.'});
    this.margin.left = 130;
  }

  draw() {
    const rows = [];
    const notes = [];
    for (const experiment of this.data.experiments) {
      const {items, why, place, best, trials} = experiment.importance;
      if (why) {
        notes.push(`${experiment.id}: ${why}.`);
        continue;
      }
      notes.push(`${experiment.id}: the best ${best} of ${trials} trials ${place}.`);
      for (const item of items) rows.push({...item, experiment});
    }
    rows.sort((a, b) => b.share - a.share);
    const shown = rows.slice(0, 20);
    if (rows.length > shown.length) notes.push(`${shown.length} of ${rows.length} shown.`);
    this.say(notes.join(' '));
    if (!shown.length) return;
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({low: 0, high: Math.max(shown[0].share, 1e-9)}, left, right - 110);
    const each = (bottom - top) / shown.length;
    shown.forEach((row, i) => {
      const y = top + i * each;
      this.context.fillStyle = experimentColor(row.experiment.index);
      this.context.fillRect(left, y + each * 0.15, Math.max(1, x(row.share) - left), each * 0.7);
      const text = this.svg.append('text').attr('class', 'mark').attr('y', y + each * 0.65);
      text.clone().attr('x', left - 6).attr('text-anchor', 'end').text(shorten(row.name, 20));
      const correlation = row.correlation === null ? '' :
          `, ρ ${row.correlation.toFixed(2).replace('-', '−')}`;
      text.attr('x', Math.max(left, x(row.share)) + 5).text((row.share * 100).toFixed(1) + ' %' + correlation);
    });
  }

  find() { return -1; }
}

/** A hyperparameter against the metric. */
export class Slice extends Chart {
  constructor(state, axis) {
    super(state, {id: 'slice-' + axis.name, title: axis.name, height: 220});
    this.axis = axis;
  }

  draw() {
    const {axis, data, state} = this;
    const key = state.metric();
    const values = data.valuesAtBest(key);
    const log = state.get('log').includes('y');
    const range = rangeOf(values, (i) => state.visible[i], log);
    this.marks.length = 0;
    if (!range) return this.say('No visible trial has a finite value.');
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({...axis, names: namesOf(axis)}, left, right);
    const y = scaleOf({...range, log}, bottom, top);
    y.nice();
    this.axes(x, y, {y: nameOf(key)}, {x: namesOf(axis)});
    const {shares, order} = rankShares(state, values, state.smallerIsBetter(key));
    this.clip();
    const radius = order.length > 2000 ? 1.5 : 3;
    for (let n = order.length - 1; n >= 0; --n) {
      const i = order[n];
      if (Number.isNaN(axis.values[i]) || (log && values[i] <= 0)) continue;
      // Trials of one category beside each other, the same at each drawing.
      const jitter = axis.choices.length ? ((data.trials.number[i] * 0.618) % 1 - 0.5) * 0.5 : 0;
      const [px, py] = [x(axis.values[i] + jitter), y(values[i])];
      this.dot(px, py, rankColor(shares[i]), radius);
      if (i === state.hovered) this.ring(px, py);
      this.marks.push([px, py, i]);
    }
    this.context.restore();
    return undefined;
  }
}

// Estimates a field in the middle of each cell of the unit square, as
// EstimateField of engine/analysis does: the mean of the samples weighted by the
// inverse square of their distances (Shepard, 1968); NaN where none is near.
export function estimateField(samples, columns, rows, byNameX, byNameY) {
  const NEAR = 0.15;
  const field = new Float64Array(columns * rows).fill(NaN);
  for (let row = 0; row < rows; ++row) {
    for (let column = 0; column < columns; ++column) {
      const [cx, cy] = [(column + 0.5) / columns, (row + 0.5) / rows];
      let sum = 0;
      let weights = 0;
      let nearest = Infinity;
      for (const [x, y, value] of samples) {
        if (byNameX && Math.min(columns - 1, Math.floor(x * columns)) !== column) continue;
        if (byNameY && Math.min(rows - 1, Math.floor(y * rows)) !== row) continue;
        const dx = byNameX ? 0 : x - cx;
        const dy = byNameY ? 0 : y - cy;
        const squared = dx * dx + dy * dy;
        nearest = Math.min(nearest, squared);
        const weight = 1 / Math.max(squared, 1e-6);
        sum += weight * value;
        weights += weight;
      }
      if (nearest <= NEAR * NEAR) field[row * columns + column] = sum / weights;
    }
  }
  return field;
}

const FIELD_CELLS = 24;
const MAX_FIELD_SAMPLES = 2000;

/** Ranks over two hyperparameters. */
export class Contour extends Chart {
  constructor(state) {
    super(state, {id: 'contour', title: 'Contour', height: 320, about:
      'Rank of the trials over two hyperparameters, interpolated between them; gray where no ' +
      'trial is near.'});
    const axes = this.usable();
    const names = axes.map((axis) => [axis.name, axis.name]);
    const [x, y] = this.chosen(axes);
    if (axes.length < 2) return;
    const set = (which) => (name) => {
      const pair = this.chosen(this.usable()).map((one) => one.name);
      pair[which] = name;
      state.set({contour: pair.join('|')});
    };
    this.controls.append(choice('x', names, x.name, set(0)), choice('y', names, y.name, set(1)));
  }

  usable() { return this.data.axes.filter((axis) => axis.high > axis.low); }

  // The chosen pair; by default the two most important ones.
  chosen(axes) {
    const wanted = this.state.get('contour').split('|');
    const important = this.data.experiments.flatMap((one) => one.importance.items || [])
        .map((item) => item.name);
    const ordered = [...wanted, ...important, ...axes.map((axis) => axis.name)]
        .map((name) => axes.find((axis) => axis.name === name)).filter(Boolean);
    if (wanted.length === 2 && ordered[0] === ordered[1]) return ordered.slice(0, 2);
    return [...new Set(ordered)].slice(0, 2);
  }

  draw() {
    const {data, state} = this;
    const [ax, ay] = this.chosen(this.usable());
    this.marks.length = 0;
    if (!ay) return this.say('This needs two hyperparameters that vary.');
    const key = state.metric();
    const {shares, order} = rankShares(state, data.valuesAtBest(key), state.smallerIsBetter(key));
    const {left, top, right, bottom} = this.box;
    const [xNames, yNames] = [namesOf(ax), namesOf(ay)];
    const x = scaleOf({...ax, names: xNames}, left, right);
    const y = scaleOf({...ay, names: yNames}, bottom, top);
    const samples = [];
    for (const i of order) {
      const [vx, vy] = [ax.values[i], ay.values[i]];
      if (Number.isNaN(vx) || Number.isNaN(vy)) continue;
      samples.push([(x(vx) - left) / (right - left), (bottom - y(vy)) / (bottom - top), shares[i], i]);
    }
    if (!samples.length) return this.say('No visible trial has a finite value and both hyperparameters.');
    const thinned = samples.filter((_, i) => i % Math.ceil(samples.length / MAX_FIELD_SAMPLES) === 0);
    const columns = xNames ? xNames.length : FIELD_CELLS;
    const rows = yNames ? yNames.length : FIELD_CELLS;
    const field = estimateField(thinned, columns, rows, Boolean(xNames), Boolean(yNames));
    const [w, h] = [(right - left) / columns, (bottom - top) / rows];
    for (let row = 0; row < rows; ++row) {
      for (let column = 0; column < columns; ++column) {
        const share = field[row * columns + column];
        this.context.fillStyle = Number.isNaN(share) ? themeColor('faint') : rankColor(share);
        this.context.globalAlpha = Number.isNaN(share) ? 0.25 : 0.75;
        this.context.fillRect(left + column * w, bottom - (row + 1) * h, w + 0.5, h + 0.5);
      }
    }
    this.context.globalAlpha = 1;
    for (const [sx, sy, , i] of thinned) {
      const [px, py] = [left + sx * (right - left), bottom - sy * (bottom - top)];
      this.dot(px, py, themeColor('text'), thinned.length > 500 ? 1 : 2);
      if (i === state.hovered) this.ring(px, py);
      this.marks.push([px, py, i]);
    }
    this.axes(x, y, {x: ax.name, y: ay.name}, {x: xNames, y: yNames});
    this.say(thinned.length < samples.length ?
        `${thinned.length} of ${samples.length} trials.` : '');
    return undefined;
  }
}

/** Share of trials that reached a value. */
export class Distribution extends Chart {
  constructor(state) {
    super(state, {id: 'distribution', title: 'Distribution', about:
      'Share of the trials whose value is at most this large (EDF).'});
  }

  draw() {
    const {data, state} = this;
    const key = state.metric();
    const values = data.valuesAtBest(key);
    const log = state.get('log').includes('y');
    const range = rangeOf(values, (i) => state.visible[i], log);
    if (!range) return this.say(`No visible trial has a finite value of ${nameOf(key)}.`);
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({...range, log}, left, right);
    const y = scaleOf({low: 0, high: 1}, bottom, top);
    this.axes(x, y, {x: nameOf(key), y: 'share of trials'});
    for (const experiment of data.experiments) {
      const own = [];
      for (let i = experiment.first; i < experiment.first + experiment.count; ++i) {
        if (state.visible[i] && Number.isFinite(values[i]) && !(log && values[i] <= 0)) own.push(values[i]);
      }
      own.sort((a, b) => a - b);
      const {context} = this;
      context.strokeStyle = experimentColor(experiment.index);
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(left, y(0));
      own.forEach((value, i) => {
        context.lineTo(x(value), y(i / own.length));
        context.lineTo(x(value), y((i + 1) / own.length));
      });
      context.stroke();
    }
    return undefined;
  }

  find() { return -1; }
}

/** Indices of the points [x, y] that no other point dominates, both minimized. */
export function paretoFront(points) {
  const order = points.map((_, i) => i)
      .sort((a, b) => points[a][0] - points[b][0] || points[a][1] - points[b][1]);
  const front = [];
  let best = Infinity;
  let last = null;
  for (const i of order) {
    const equal = last && points[i][0] === last[0] && points[i][1] === last[1];
    if (points[i][1] < best || equal) {
      front.push(i);
      best = points[i][1];
      last = points[i];
    }
  }
  return front;
}

/** Two metrics against each other, with the trials that no other dominates. */
export class Pareto extends Chart {
  constructor(state) {
    super(state, {id: 'pareto', title: 'Two metrics', height: 320, about:
      'Values at the trials’ best validations. The line joins the trials that no other one beats ' +
      'in both metrics.'});
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
    if (!xRange) return this.say('No visible trial has finite values of both.');
    const {left, top, right, bottom} = this.box;
    const x = scaleOf(xRange, left, right);
    const y = scaleOf(yRange, bottom, top);
    x.nice();
    y.nice();
    const signs = keys.map((key) => (state.smallerIsBetter(key) ? 1 : -1));
    keys.forEach((key, k) => this.direction.append(directionButton(state, key, 'xy'[k])));
    this.axes(x, y, {x: nameOf(keys[0]), y: nameOf(keys[1])});
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
      if (i === state.hovered) this.ring(px, py);
      this.marks.push([px, py, i]);
    }
    context.strokeStyle = themeColor('text');
    context.lineWidth = 1.5;
    context.beginPath();
    front.forEach((i, n) => (n ? context.lineTo(x(xs[i]), y(ys[i])) : context.moveTo(x(xs[i]), y(ys[i]))));
    context.stroke();
    for (const i of front) this.dot(x(xs[i]), y(ys[i]), themeColor('text'), 3.5);
    this.say(`${front.length} of ${trials.length} trials are on the front.`);
    return undefined;
  }
}

// "x: smaller is better", which a click turns round where it is not known.
function directionButton(state, key, label) {
  const text = `${label}: ${state.smallerIsBetter(key) ? 'smaller' : 'larger'} is better`;
  if (!state.hasChoiceOfDirection(key)) return element('span', {class: 'fact'}, text);
  return element('button', {type: 'button', title: 'turn round',
    onclick: () => state.turnDirection(key)}, text + ' ⇄');
}

export const STATE_COLORS = {COMPLETED: '#009e73', STOPPED: '#56b4e9', ERROR: '#d55e00',
  CANCELED: '#7f7f7f', RUNNING: '#e69f00', PAUSED: '#cc79a7', INTERRUPTED: '#8c6bb1',
  PENDING: '#bbbbbb'};

const MAX_TICKED = 1000;  // trials whose reports are marked

/** When trials ran. */
export class Timeline extends Chart {
  constructor(state) {
    super(state, {id: 'timeline', title: 'Timeline', wide: true, about:
      'A light bar for each trial from its start to its end, pauses included, in as few rows as ' +
      'possible; dark where it reported a validation.'});
    this.legend = element('div', {class: 'legend'});
    this.card.insertBefore(this.legend, this.note);
  }

  draw() {
    const {data, state} = this;
    const {started, ended, seconds, lane} = data.trials;
    this.marks.length = 0;
    this.rows = [];
    const offset = data.experiments.map(() => 0);
    let lanes = 0;
    let last = 0;
    for (const one of data.experiments) {
      offset[one.index] = lanes;
      let most = -1;
      for (let i = one.first; i < one.first + one.count; ++i) {
        if (Number.isNaN(started[i])) continue;
        most = Math.max(most, lane[i]);
        last = Math.max(last, Number.isNaN(ended[i]) ? started[i] + seconds[i] : ended[i]);
      }
      lanes += most + 1;
    }
    if (!lanes) return this.say('No trial has started.');
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({low: 0, high: last || 1}, left, right);
    const each = (bottom - top) / lanes;
    drawAxis(this.svg, x, 'bottom', {at: bottom, length: right - left,
      label: 'seconds since the experiment was created'});
    const used = new Set();
    for (let i = 0; i < data.trials.count; ++i) {
      if (!state.visible[i] || Number.isNaN(started[i])) continue;
      const end = Number.isNaN(ended[i]) ? started[i] + seconds[i] : ended[i];
      const y = top + (offset[data.trials.experiment[i]] + lane[i]) * each;
      const name = data.stateOf(i);
      used.add(name);
      this.context.fillStyle = i === state.hovered ? themeColor('text') : STATE_COLORS[name];
      const [from, to] = [x(started[i]), x(end)];
      const gap = to - from > 3 ? 0.5 : 0;
      this.context.globalAlpha = 0.4;
      this.context.fillRect(from, y + each * 0.08, Math.max(to - from - gap, 0.7), each * 0.84);
      this.context.globalAlpha = 1;
      for (const time of data.trials.count <= MAX_TICKED ? this.reportTimes(i) : []) {
        this.context.fillRect(Math.min(x(time / 1000), to - 1.5), y + each * 0.08, 1.5, each * 0.84);
      }
      this.rows.push([from, Math.max(to, from + 2), y, y + each, i]);
    }
    this.legend.replaceChildren(...[...used].map((name) => {
      const key = element('span', {class: 'key'}, element('span', {class: 'swatch'}), name);
      key.firstChild.style.borderColor = STATE_COLORS[name];
      return key;
    }));
    this.say(data.trials.count > MAX_TICKED ?
        `Reports are marked for up to ${MAX_TICKED} trials.` : '');
    return undefined;
  }

  // Milliseconds at which the trial reported a validation, or else training.
  reportTimes(trial) {
    const {metrics} = this.data;
    const key = metrics.find((one) => this.data.series(trial, one.key))?.key;
    return key ? this.data.series(trial, key).milliseconds : [];
  }

  find(x, y) {
    const hit = (this.rows || []).find(([from, to, low, high]) =>
      x >= from && x <= to && y >= low && y < high);
    return hit ? hit[4] : -1;
  }

  textOf(trial) {
    return super.textOf(trial) + '\n' + formatDuration(this.data.trials.seconds[trial]);
  }
}

/** How many trials reached each rung of the search. */
export class Rungs extends Chart {
  constructor(state) {
    super(state, {id: 'rungs', title: 'Rungs', about:
      'Trials that completed so many of the lengths that the search asked for: those that went ' +
      'on to the next one, those that ended, and those that may still go on.'});
  }

  draw() {
    const rows = this.data.experiments.flatMap((experiment) =>
      experiment.rungs.map((rung, i) => ({...rung, i, experiment})));
    const most = Math.max(1, ...rows.map((row) => row.reached));
    if (!rows.length) return this.say('There are no trials.');
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({low: 0, high: most}, left, right - 150);
    const each = (bottom - top) / rows.length;
    drawAxis(this.svg, x, 'bottom', {at: bottom, length: right - left, label: 'trials'});
    rows.forEach((row, n) => {
      let from = left;
      const y = top + n * each;
      for (const [part, alpha] of [[row.went_on, 1], [row.open, 0.6], [row.ended, 0.3]]) {
        this.context.globalAlpha = alpha;
        this.context.fillStyle = experimentColor(row.experiment.index);
        const width = x(part) - left;
        this.context.fillRect(from, y + each * 0.12, width, each * 0.76);
        from += width;
      }
      this.context.globalAlpha = 1;
      const text = this.svg.append('text').attr('class', 'mark').attr('y', y + each * 0.62);
      text.clone().attr('x', left - 6).attr('text-anchor', 'end')
          .text(`${row.experiment.id} · ${row.i}`);
      text.attr('x', from + 5).text(`${row.reached}: ${row.went_on} on, ${row.ended} ended` +
          (row.open ? `, ${row.open} open` : ''));
    });
    return undefined;
  }

  find() { return -1; }
}
