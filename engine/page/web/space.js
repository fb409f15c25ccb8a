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
import {Chart, choice, drawAxis, element, experimentColor, countOf, metricLabel, nameOf, namesOf, opacityOf, patchChildren, rangeOf,
  rankColor, rankLegend, rankShares, scaleOf, shorten, themeColor} from './chart.js';
import {formatNumber} from './data.js';

const MIN_AXIS_WIDTH = 44;
const LANE = 24;  // height of the lane of trials that lack a hyperparameter
const FEW_BEST = 5;  // trials, as in `dtrain importance`

/** Parallel coordinates: a line a trial over all axes. */
export class Parallel extends Chart {
  constructor(state) {
    super(state, {id: 'parallel', title: 'Parallel coordinates', wide: true, height: 360, about:
      'Drag along an axis to select a range, drag a name to reorder, double click a name to turn ' +
      'its axis round. A line is a trial, named where it crosses an axis, its color the rank by the metric.'});
    this.addColorKey(true);
    this.sliders = element('div', {class: 'sliders'});
    this.ranges = element('details', {class: 'data'}, element('summary', {}, 'Ranges and order of the axes'), this.sliders);
    this.ranges.addEventListener('toggle', () => this.drawSliders());
    this.card.insertBefore(this.ranges, this.details);
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
    const values = state.valuesOf(key);
    const shown = values.filter((_, i) => state.visible[i]);
    const range = this.limits(rangeOf(shown), shown) || {low: 0, high: 1};
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
      // Below the axis is a lane for trials that lack the hyperparameter, or have
      // a value without a place on it.
      const off = axis.exact ? [...state.visible.keys()].filter((n) =>
        state.visible[n] && Number.isNaN(axis.values[n])) : [];
      const absent = off.length > 0;
      axis.off = off.some((n) => axis.exact.has(n)) ? 'other' : 'absent';
      axis.lane = absent ? bottom : null;
      axis.end = absent ? bottom - LANE : bottom;
      axis.scale = scaleOf(axis, axis.turned ? top : axis.end, axis.turned ? axis.end : top).clamp(true);
    });
    const {shares, order} = rankShares(state, state.valuesOf(state.metric()),
        state.smallerIsBetter(state.metric()));
    this.context.lineWidth = order.length > 2000 ? 0.6 : 1.2;
    // Many lines hide each other: then they are faint, the best tenth less so.
    const alpha = opacityOf(order.length, Math.min(0.9, 300 / order.length));
    let invisible = 0;
    for (let n = order.length - 1; n >= 0; --n) {  // the best on top
      this.context.globalAlpha = shares[order[n]] < 0.1 ? Math.min(1, 5 * alpha) : alpha;
      if (!this.drawLine(axes, order[n], this.colorOf(order[n], rankColor(shares[order[n]])), true)) ++invisible;
    }
    this.context.globalAlpha = 1;
    this.drawnAxes = axes;
    axes.forEach((axis, i) => this.drawParallelAxis(axes, i));
    this.drawSliders();
    const missing = state.shown - order.length;
    return this.say([this.omitted ? `The ${axes.length - 1} most important hyperparameters of ` +
      `${axes.length - 1 + this.omitted}; the page is too narrow for more.` : '',
      missing > 0 ? `${countOf(missing, 'trial')} without a finite value, not drawn.` : '',
      this.outlierNote(axes.find((axis) => axis.name === state.metric()) || {}, 'trial'),
      invisible ? `${countOf(invisible, 'trial')} without values on adjacent axes, not drawn.` : '']
        .filter(Boolean).join(' '));
  }

  highlight(trial) {
    if (!this.marks.length) return;
    this.context.lineWidth = 3;
    this.drawLine(this.drawnAxes, trial, themeColor('text'));
  }

  facts(trial, mark) {
    const axis = this.drawnAxes.find(({x}) => x === mark[0]);
    return [...(axis?.exact ? [this.hparamFact({...axis, name: axis.label}, trial)] : []), ...super.facts(trial)];
  }

  tableOf() {
    const axes = this.drawnAxes || [];
    const trials = [...new Set(this.marks.map(([, , trial]) => trial))].reverse();  // the best first
    return {heads: ['trial', 'state', ...axes.map(({label}) => label)], rows: trials.map((trial) =>
      [this.data.idOf(trial), this.data.stateOf(trial), ...axes.map((axis) => (axis.exact ?
        this.data.hparamText(axis, trial) : axis.text(axis.values[trial])))])};
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
      if (!Number.isFinite(value) && axis.lane === null) {
        open = false;
        continue;
      }
      const y = Number.isFinite(value) ? axis.scale(value) : axis.lane;
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
    const {top} = this.box;
    const group = this.svg.append('g').attr('class', 'parallel-axis');
    drawAxis(group, axis.scale, 'left', {at: axis.x, length: axis.end - top, names: axis.names});
    if (axis.lane !== null) {
      group.append('text').attr('class', 'mark').attr('x', axis.x - 8).attr('y', axis.lane + 4)
          .attr('text-anchor', 'end').text(axis.off);
    }
    for (const [count, value, sign] of [[axis.above, axis.high, '▲'], [axis.below, axis.low, '▼']]) {
      if (!count) continue;
      group.append('text').attr('class', 'mark').attr('x', axis.x + 5).attr('y', axis.scale(value) + 4)
          .text(`${sign} ${count}`);
    }
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
      else this.redraw();
    }));
    const brush = d3.brushY().extent([[axis.x - 10, top], [axis.x + 10, axis.end]])
        .on('start', () => { this.busy = true; })
        .on('end', () => this.brushed(axis));
    const range = this.state.brushes()[axis.name];
    const brushed = group.append('g').attr('class', 'brush').call(brush);
    if (range) {
      const ends = range.map(axis.scale).sort((a, b) => a - b);
      brushed.call(brush.move, [Math.max(top, ends[0]), Math.min(axis.end, ends[1])]);
    }
  }

  brushed(axis) {
    this.busy = false;
    const chosen = d3.event.selection;
    if (!d3.event.sourceEvent) return;  // moved by drawing
    if (!chosen) return void this.state.setBrush(axis.name, null);
    this.select(axis, ...chosen.map(axis.scale.invert).sort((a, b) => a - b));
  }

  select(axis, low, high) {
    // The ends of the axis stand for the outliers beyond them.
    this.state.setBrush(axis.name, [axis.below && low <= axis.low ? -Number.MAX_VALUE : low,
      axis.above && high >= axis.high ? Number.MAX_VALUE : high]);
  }

  // What brushing and dragging do, for the keyboard: two sliders an axis, and buttons.
  drawSliders() {
    const axes = this.drawnAxes;
    if (!this.ranges.open || !axes) return;
    const brushes = this.state.brushes();
    patchChildren(this.sliders, axes.map((axis, i) => {
      const steps = axis.names ? axis.names.length - 1 : 100;
      const scale = axis.names ? d3.scaleLinear().domain([0, steps]).range([0, steps]) : scaleOf(axis, 0, steps);
      const [low, high] = brushes[axis.name] ? brushes[axis.name]
          .map((end) => Math.min(Math.max(scale(end), 0) || 0, steps)) : [0, steps];
      const ends = [axis.names ? Math.ceil(low) : low, axis.names ? Math.floor(high) : high];
      const slider = (n, label) => {
        const value = Math.round(ends[n]);
        return element('input', {type: 'range', min: 0, max: steps, value, 'data-key': axis.name + ' ' + label,
          'aria-label': `${label} ${axis.label}`, 'aria-valuetext': axis.text(axis.names ? value : scale.invert(value)),
          oninput: ({target}) => {
            const both = ends.slice();
            both[n] = Number(target.value);
            both[1 - n] = n ? Math.min(both[0], both[1]) : Math.max(both[0], both[1]);
            if (both[0] <= 0 && both[1] >= steps) this.state.setBrush(axis.name, null);
            else if (axis.names) this.select(axis, both[0] - 0.25, both[1] + 0.25);
            else this.select(axis, scale.invert(both[0]), scale.invert(both[1]));
            this.state.speak(`${this.state.shown} of ${this.data.trials.count} trials`);
          }});
      };
      const button = (text, label, onclick) => element('button', {type: 'button', class: 'tool',
        'data-key': `${axis.name} ${label}`, 'aria-label': `${label}: ${axis.label}`, title: label, onclick}, text);
      return element('div', {class: 'slider', 'data-key': axis.name}, element('span', {title: axis.label},
          shorten(axis.label, 30)), slider(0, 'least'), slider(1, 'most'),
      element('span', {class: 'fact'}, ends.map((end) => axis.text(axis.names ? Math.round(end) : scale.invert(end))).join(' to ')),
      button('←', 'move left', () => this.shift(axes, i, -1)), button('→', 'move right', () => this.shift(axes, i, 1)),
      button('↕', 'turn round', () => this.turn(axes, i)));
    }));
    for (const input of this.sliders.querySelectorAll('input')) {
      if (input !== document.activeElement) input.value = input.defaultValue;
    }
  }

  shift(axes, i, by) {
    const at = Math.min(Math.max(i + by, 0), axes.length - 1);
    axes.splice(at, 0, ...axes.splice(i, 1));
    this.saveOrder(axes);
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
      'trials (PED-ANOVA), as shares of 100 %. Line: where 90 % of samples from these trials lie ' +
      '(bootstrap). Hatched: fewer than 5 best trials, a matter of chance. ρ: rank correlation with ' +
      'the metric. All trials count, whatever is selected.'});
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
      (why ? `${id}: ${why}.` : `${id}: the best ${best} of ${trials} trials by ${metric} ${place}` +
        (best < FEW_BEST ? `: ${countOf(best, 'trial')} ${best === 1 ? 'is' : 'are'} few to compare with.` : '.')));
    const rows = this.rowsOf();
    const shown = rows.slice(0, 20);
    if (rows.length > shown.length) notes.push(`${shown.length} of ${rows.length} shown.`);
    this.say(notes.join(' '));
    if (!shown.length) return;
    const largest = Math.max(...shown.map((row) => row.share), ...shown.map((row) => row.high));
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({low: 0, high: Math.max(largest, 1e-9)}, left, right - 150);
    const each = Math.min(36, (bottom - top) / shown.length);
    shown.forEach((row, i) => {
      const y = top + i * each;
      this.bar(row, left, y + each * 0.15, Math.max(1, x(row.share) - left), each * 0.7);
      this.context.fillStyle = themeColor('text');
      this.context.fillRect(x(row.low), y + each * 0.5 - 1, Math.max(1, x(row.high) - x(row.low)), 2);
      const text = this.svg.append('text').attr('class', 'mark').attr('y', y + each * 0.5 + 4);
      const id = this.data.experiments.length > 1 ? row.experiment.id + ' · ' : '';
      text.clone().attr('x', left - 6).attr('text-anchor', 'end').text(shorten(id + row.name, 17));
      const correlation = row.correlation === null ? '' :
          `, ρ ${row.correlation.toFixed(2).replace('-', '−')}`;
      const percent = (share) => (share * 100).toFixed(0);
      text.attr('x', Math.max(left, x(Math.max(row.share, row.high))) + 5)
          .text(`${percent(row.share)} % (${percent(row.low)}–${percent(row.high)})${correlation}`);
    });
  }

  heightNow() { return 16 + 36 * Math.min(Math.max(this.rowsOf().length, 2), 8); }

  tableOf() {
    const percent = (share) => `${(share * 100).toFixed(1)} %`;
    return {heads: ['experiment', 'hyperparameter', 'importance', '90 % from', 'to', 'rank correlation'],
      rows: this.rowsOf().map(({experiment, name, share, low, high, correlation}) => [String(experiment.id), name,
        percent(share), percent(low), percent(high), correlation === null ? '–' : formatNumber(correlation)])};
  }

  bar({experiment}, left, top, width, height) {
    const {context} = this;
    context.fillStyle = context.strokeStyle = experimentColor(experiment.index);
    if (experiment.importance.best >= FEW_BEST) return context.fillRect(left, top, width, height);
    context.lineWidth = 1;
    context.strokeRect(left, top, width, height);
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.beginPath();
    for (let x = left - height; x < left + width; x += 6) {
      context.moveTo(x, top + height);
      context.lineTo(x + height, top);
    }
    context.stroke();
    return context.restore();
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
    const values = state.valuesOf(key);
    const log = state.get('log').includes('y');
    const range = this.limits(rangeOf(values, (i) => state.visible[i], log),
        values.filter((_, i) => state.visible[i]));
    this.marks.length = 0;
    if (!range) return this.say('No selected trial has a finite value.');
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({...axis, names: namesOf(axis)}, left, right);
    const y = scaleOf({...range, log}, bottom, top);
    if (range.above === undefined) y.nice();
    this.zoomedScales(x, y);
    this.axes(x, y, {x: axis.name, y: nameOf(key)}, {x: namesOf(axis)});
    const {shares, order} = rankShares(state, values, state.smallerIsBetter(key));
    this.clip();
    const radius = order.length > 2000 ? 1.5 : 3;
    for (let n = order.length - 1; n >= 0; --n) {
      const i = order[n];
      if (Number.isNaN(axis.values[i]) || (log && values[i] <= 0)) continue;
      // Trials of one category beside each other, the same at each drawing.
      const jitter = axis.choices.length ? ((data.trials.number[i] * 0.618) % 1 - 0.5) * 0.5 : 0;
      const at = this.dot(x(axis.values[i] + jitter), y(values[i]), this.colorOf(i, rankColor(shares[i])), radius);
      this.marks.push([...at, i]);
    }
    this.context.restore();
    const off = order.filter((i) => Number.isNaN(axis.values[i])).length;
    return this.say([this.outlierNote(range, 'trial'), off ? `${countOf(off, 'trial')} without a place ` +
      'on this axis.' : ''].filter(Boolean).join(' '));
  }

  facts(trial) { return [this.hparamFact(this.axis, trial), ...super.facts(trial)]; }
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

  // The values that ranks are of: unless the reader chose, those of `dtrain plot`
  // at the length that enough trials of an experiment have in common.
  compared(key) {
    const {data, state} = this;
    const all = data.experiments.map(({compared}) => compared);
    const own = data.experiments.every(({metric}, i) => all[i] && key === 'validation/' + metric);
    if (state.get('at') || !own) return {values: state.valuesOf(key), place: state.placeText()};
    const values = new Float64Array(data.trials.count).fill(NaN);
    for (const {first, compared} of data.experiments) values.set(compared.values, first);
    const places = new Set(all.map(({place}) => place));
    return {values, place: places.size === 1 ? [...places][0] : 'at the default length of each'};
  }

  facts(trial) {
    const {values, place} = this.compared(this.state.metric());
    return [...this.chosen(this.usable()).map((axis) => this.hparamFact(axis, trial)),
      `${this.valueText(this.state.metric(), values[trial])} ${place}`];
  }

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
    const {values, place} = this.compared(key);
    const {order} = rankShares(state, values, state.smallerIsBetter(key));
    const {left, top, right, bottom} = this.box;
    const [xNames, yNames] = [namesOf(ax), namesOf(ay)];
    const x = scaleOf({...ax, names: xNames}, left, right);
    const y = scaleOf({...ay, names: yNames}, bottom, top);
    const both = order.filter((i) => !Number.isNaN(ax.values[i]) && !Number.isNaN(ay.values[i]));
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
    const made = [state.version, key, place, state.smallerIsBetter(key), ax.name, ay.name].join();
    if (this.made !== made) {
      this.field = estimateField(thinned, columns, rows, Boolean(xNames), Boolean(yNames));
      this.made = made;
    }
    const [allX, allY] = [x.copy(), y.copy()];
    this.zoomedScales(x, y);
    this.clip();
    this.drawField((share) => x(allX.invert(left + share * (right - left))), columns,
        (share) => y(allY.invert(bottom - share * (bottom - top))), rows);
    this.context.restore();
    for (const [, , , i] of thinned) {
      const place = [x(ax.values[i]), y(ay.values[i])];
      if (thinned.length <= 500) this.dot(...place, themeColor('card'), 3);  // a rim
      const at = this.dot(...place, themeColor('text'), thinned.length > 500 ? 1 : 2);
      this.marks.push([...at, i]);
    }
    this.axes(x, y, {x: ax.name, y: ay.name}, {x: xNames, y: yNames});
    const others = state.shown - samples.length;
    return this.say(`Values ${place}.` + (thinned.length < samples.length ?
      ` One trial in ${Math.ceil(samples.length / MAX_FIELD_SAMPLES)}, ${thinned.length} of ${samples.length}.` : '') +
      (others ? ` ${countOf(others, 'trial')} without a value there or a place on these axes.` : ''));
  }

  // `x` and `y` have the place of a share of the axis. Edges are whole pixels:
  // others would leave lines between cells.
  drawField(x, columns, y, rows) {
    for (let row = 0; row < rows; ++row) {
      for (let column = 0; column < columns; ++column) {
        const share = this.field[row * columns + column];
        if (Number.isNaN(share)) continue;
        const [x0, x1] = [0, 1].map((n) => Math.round(x((column + n) / columns)));
        const [y0, y1] = [0, 1].map((n) => Math.round(y((row + n) / rows)));
        this.context.fillStyle = rankColor(share);
        this.context.fillRect(x0, y1, x1 - x0, y0 - y1);
      }
    }
  }
}

