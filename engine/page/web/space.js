// Plots over the hyperparameters: parallel coordinates, importance, slices,
// contour.
//
// Colors are ranks of the visible trials and not values, so that one bad value
// does not make all others look the same. The best trials are drawn last, on
// top. Importance is computed by dtrain over all trials and only drawn here.
// The contour is an estimate from the trials nearby (estimateField), computed
// in pixels of the plot divided by its size, so that logarithmic axes count as
// they are drawn.

/* global d3 */

import {estimateField, ranksOf} from './analysis.js';
import {Chart, choice, drawAxis, experimentColor, countOf, metricLabel, nameOf, namesOf, rangeOf,
  rankColor, rankLegend, rankShares, scaleOf, shorten, themeColor} from './chart.js';
import {formatNumber} from './data.js';

const MIN_AXIS_WIDTH = 44;

/** Parallel coordinates: a line a trial over all axes. */
export class Parallel extends Chart {
  constructor(state) {
    super(state, {id: 'parallel', title: 'Parallel coordinates', wide: true, height: 360, about:
      'Drag along an axis to select a range, drag a name to reorder, double click a name to turn ' +
      'its axis round. A line is a trial, named where it crosses an axis, its color the rank by the metric.'});
    this.card.insertBefore(rankLegend(), this.note);
    this.margin = {top: 40, right: 40, bottom: 20, left: 40};
  }

  axisList() {
    const {data, state} = this;
    const key = state.metric();
    const most = Math.max(2, Math.floor(this.width / MIN_AXIS_WIDTH) - 1);
    const varying = data.varyingAxes();
    this.omitted = Math.max(0, varying.length - most);
    // The order of the search space, unless there are too many.
    const chosen = this.omitted ? varying.slice(0, most) :
      data.axes.filter((axis) => varying.includes(axis));
    const all = chosen.map((axis) => ({
      ...axis, name: 'hp.' + axis.name, label: axis.name, names: namesOf(axis),
      text: (value) => data.axisText(axis, value)}));
    const values = data.valuesAtBest(key);
    const range = rangeOf(values) || {low: 0, high: 1};
    all.push({name: key, label: nameOf(key), full: metricLabel(state, key), values, ...range, names: null, text: formatNumber,
      log: state.get('log').includes('y') && range.low > 0});
    const order = state.get('order').split('|').filter(Boolean);
    const turned = new Set(order.filter((one) => one.startsWith('!')).map((one) => one.slice(1)));
    const place = new Map(order.map((one, i) => [one.replace(/^!/, ''), i]));
    all.forEach((axis, i) => {
      axis.turned = turned.has(axis.name);
      axis.place = place.get(axis.name) ?? order.length + i;
    });
    return all.sort((a, b) => a.place - b.place);
  }

  draw() {
    const {data, state} = this;
    const axes = this.axisList();
    this.svg.selectAll('.parallel-axis').remove();
    this.marks.length = 0;
    if (axes.length < 2) return this.say('The search varies no hyperparameter.');
    if (!state.shown) return this.say('No trial is selected.');
    const {left, top, right, bottom} = this.box;
    axes.forEach((axis, i) => {
      axis.x = left + (right - left) * i / (axes.length - 1);
      axis.scale = scaleOf(axis, axis.turned ? top : bottom, axis.turned ? bottom : top);
    });
    const {shares, order} = rankShares(state, data.valuesAtBest(state.metric()),
        state.smallerIsBetter(state.metric()));
    this.context.lineWidth = order.length > 2000 ? 0.6 : 1.2;
    // Many lines hide each other: then they are faint, the best tenth less so.
    const alpha = Math.min(0.9, 300 / order.length);
    let invisible = 0;
    for (let n = order.length - 1; n >= 0; --n) {  // the best on top
      this.context.globalAlpha = shares[order[n]] < 0.1 ? Math.min(0.9, 5 * alpha) : alpha;
      if (!this.drawLine(axes, order[n], rankColor(shares[order[n]]), true)) ++invisible;
    }
    this.context.globalAlpha = 1;
    this.drawnAxes = axes;
    axes.forEach((axis, i) => this.drawParallelAxis(axes, i));
    const missing = state.shown - order.length;
    return this.say([this.omitted ? `The ${axes.length - 1} most important hyperparameters of ` +
      `${axes.length - 1 + this.omitted}; the page is too narrow for more.` : '',
      missing > 0 ? `${countOf(missing, 'trial')} without a finite value, not drawn.` : '',
      invisible ? `${countOf(invisible, 'trial')} without values on adjacent axes, not drawn.` : '']
        .filter(Boolean).join(' '));
  }

  highlight(trial) {
    if (!this.marks.length) return;
    this.context.lineWidth = 3;
    this.drawLine(this.drawnAxes, trial, themeColor('text'));
  }

  // Returns false if no two adjacent axes have a value of the trial.
  drawLine(axes, trial, color, marked = false) {
    const {context} = this;
    context.strokeStyle = color;
    context.beginPath();
    let open = false;
    let drawn = false;  // a piece between two axes
    for (const axis of axes) {
      const value = axis.values[trial];
      if (!Number.isFinite(value)) {
        open = false;
        continue;
      }
      const y = axis.scale(value);
      if (open) context.lineTo(axis.x, y);
      else context.moveTo(axis.x, y);
      drawn ||= open;
      open = true;
      if (marked) this.marks.push([axis.x, y, trial]);
    }
    context.stroke();
    return drawn;
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
    label.append('title').text(axis.full || axis.label);
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
      'How much a hyperparameter matters for being among the best tenth of an experiment’s ' +
      'trials (PED-ANOVA), as shares of 100 %. ρ: rank correlation with the metric. All trials ' +
      'count, whatever is selected.'});
    this.margin = {top: 8, right: 16, bottom: 8, left: 130};
  }

  // Rows by name, the most important names first, each with all experiments.
  rowsOf() {
    const rows = [];
    const most = new Map();
    for (const experiment of this.data.experiments) {
      for (const item of experiment.importance.items || []) {
        rows.push({...item, experiment});
        most.set(item.name, Math.max(item.share, most.get(item.name) ?? 0));
      }
    }
    const place = new Map([...most].sort((a, b) => b[1] - a[1]).map(([name], i) => [name, i]));
    return rows.sort((a, b) => place.get(a.name) - place.get(b.name) ||
        a.experiment.index - b.experiment.index);
  }

  draw() {
    const notes = this.data.experiments.map(({id, metric, importance: {why, place, best, trials}}) =>
      (why ? `${id}: ${why}.` : `${id}: the best ${best} of ${trials} trials by ${metric} ${place}.`));
    const rows = this.rowsOf();
    const shown = rows.slice(0, 20);
    if (rows.length > shown.length) notes.push(`${shown.length} of ${rows.length} shown.`);
    this.say(notes.join(' '));
    if (!shown.length) return;
    const largest = Math.max(...shown.map((row) => row.share));
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({low: 0, high: Math.max(largest, 1e-9)}, left, right - 110);
    const each = Math.min(36, (bottom - top) / shown.length);
    shown.forEach((row, i) => {
      const y = top + i * each;
      this.context.fillStyle = experimentColor(row.experiment.index);
      this.context.fillRect(left, y + each * 0.15, Math.max(1, x(row.share) - left), each * 0.7);
      const text = this.svg.append('text').attr('class', 'mark').attr('y', y + each * 0.5 + 4);
      text.clone().attr('x', left - 6).attr('text-anchor', 'end').text(shorten(row.name, 17));
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
    if (!range) return this.say('No selected trial has a finite value.');
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({...axis, names: namesOf(axis)}, left, right);
    const y = scaleOf({...range, log}, bottom, top);
    y.nice();
    this.axes(x, y, {x: axis.name, y: nameOf(key)}, {x: namesOf(axis)});
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
      this.marks.push([px, py, i]);
    }
    this.context.restore();
    return undefined;
  }
}

const FIELD_CELLS = 24;
const MAX_FIELD_SAMPLES = 2000;

/** Ranks over two hyperparameters. */
export class Contour extends Chart {
  constructor(state) {
    super(state, {id: 'contour', title: 'Contour', height: 320, about:
      'Rank by the metric over two hyperparameters: a mean of the trials nearby, blank where none ' +
      'is near. Dots: trials.'});
    this.card.insertBefore(rankLegend(), this.note);
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

  usable() { return this.data.varyingAxes(); }

  // The chosen pair; by default the two most important ones.
  chosen(axes) {
    const wanted = this.state.get('contour').split('|');
    const ordered = [...wanted, ...axes.map((axis) => axis.name)]
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
    const {order} = rankShares(state, data.valuesAtBest(key), state.smallerIsBetter(key));
    const {left, top, right, bottom} = this.box;
    const [xNames, yNames] = [namesOf(ax), namesOf(ay)];
    const x = scaleOf({...ax, names: xNames}, left, right);
    const y = scaleOf({...ay, names: yNames}, bottom, top);
    const both = order.filter((i) => !Number.isNaN(ax.values[i]) && !Number.isNaN(ay.values[i]));
    const values = data.valuesAtBest(key);
    const ranks = ranksOf(both.map((i) => (state.smallerIsBetter(key) ? values[i] : -values[i])));
    const samples = both.map((i, n) => [(x(ax.values[i]) - left) / (right - left),
      (bottom - y(ay.values[i])) / (bottom - top),
      both.length > 1 ? (ranks[n] - 1) / (both.length - 1) : 0.5, i]);
    if (!samples.length) {
      return this.say('No selected trial has a finite value and both hyperparameters.');
    }
    const thinned = samples.filter((_, i) => i % Math.ceil(samples.length / MAX_FIELD_SAMPLES) === 0);
    const columns = xNames ? xNames.length : FIELD_CELLS;
    const rows = yNames ? yNames.length : FIELD_CELLS;
    const made = [state.version, key, state.smallerIsBetter(key), ax.name, ay.name].join();
    if (this.made !== made) {
      this.field = estimateField(thinned, columns, rows, Boolean(xNames), Boolean(yNames));
      this.made = made;
    }
    this.drawField(columns, rows);
    for (const [sx, sy, , i] of thinned) {
      const [px, py] = [left + sx * (right - left), bottom - sy * (bottom - top)];
      this.dot(px, py, themeColor('text'), thinned.length > 500 ? 1 : 2);
      this.marks.push([px, py, i]);
    }
    this.axes(x, y, {x: ax.name, y: ay.name}, {x: xNames, y: yNames});
    return this.say(thinned.length < samples.length ?
      `Every n-th trial, ${thinned.length} of ${samples.length}.` : '');
  }

  // Edges are whole pixels: others would leave lines between cells.
  drawField(columns, rows) {
    const {left, top, right, bottom} = this.box;
    const edge = (i, count, from, to) => Math.round(from + (to - from) * i / count);
    for (let row = 0; row < rows; ++row) {
      for (let column = 0; column < columns; ++column) {
        const share = this.field[row * columns + column];
        if (Number.isNaN(share)) continue;
        const [x0, x1] = [0, 1].map((n) => edge(column + n, columns, left, right));
        const [y0, y1] = [0, 1].map((n) => edge(row + n, rows, bottom, top));
        this.context.fillStyle = rankColor(share);
        this.context.globalAlpha = 0.75;
        this.context.fillRect(x0, y1, x1 - x0, y0 - y1);
      }
    }
    this.context.globalAlpha = 1;
  }
}

