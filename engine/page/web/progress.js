// Plots of how a search went: when trials ran, and which rungs they completed.

/* global d3 */

import {countRungs} from './analysis.js';
import {Chart, categoryColor, categoryStyle, countOf, drawAxis, element, scaleOf, themeColor, timeUnit}
  from './chart.js';
import {formatDuration} from './data.js';

// Categories of states; engine/report/plot_trials.cc has the same.
const STATES = {COMPLETED: 2, STOPPED: 5, ERROR: 1, CANCELED: 7, RUNNING: 4, PAUSED: 3, INTERRUPTED: 6, INVALID: 0};
const stateColor = (name) => (name in STATES ? categoryColor(STATES[name]) : themeColor('ghost'));

/** Color of a state of trials, as a style. */
export const stateStyle = (name) => (name in STATES ? categoryStyle(STATES[name]) : 'var(--ghost)');

// States in which a trial stays.
const ENDED = new Set(['COMPLETED', 'STOPPED', 'CANCELED', 'ERROR', 'INVALID']);

const MAX_ROWS = 40;  // rungs

/** When the processes of trials ran. */
export class Timeline extends Chart {
  constructor(state) {
    super(state, {id: 'timeline', title: 'Timeline', wide: true, about:
      (state.data.experiments.every(({runs}) => runs) ?
        'A bar for each run of a trial, from its start or first report to its last report.' :
        'A bar for each trial from its start to its end, pauses included.') +
      ' Runs at the same time are in different rows.'});
    this.legend = element('div', {class: 'legend'});
    this.card.insertBefore(this.legend, this.note);
  }

  // The runs of an experiment; without them, as in the live page, its trials.
  runsOf(experiment) {
    if (experiment.runs) return experiment.runs;
    const {trials} = this.data;
    const start = ((experiment.started ?? experiment.created) - experiment.created) / 1000;
    const runs = {trial: [], from: [], to: [], lane: []};
    for (let i = experiment.first; i < experiment.first + experiment.count; ++i) {
      if (Number.isNaN(trials.started[i])) continue;
      const from = trials.started[i] - start;
      runs.trial.push(trials.number[i]);
      runs.from.push(from);
      runs.to.push(Number.isNaN(trials.ended[i]) ? from + trials.seconds[i] : trials.ended[i] - start);
      runs.lane.push(trials.lane[i]);
    }
    return runs;
  }

  heightNow() {
    const lanes = d3.sum(this.data.experiments, (experiment) => d3.max(this.runsOf(experiment).lane, (lane) => lane + 1) || 0);
    return this.margin.top + this.margin.bottom + Math.min(40 * Math.max(lanes, 1), 230);
  }

  // Draws the visible runs; `lanes` are the rows of the experiments above.
  drawRuns(experiment, lanes, x, each, used) {
    const {data, state} = this;
    const {trial, from, to, lane} = this.runsOf(experiment);
    const indices = new Map();
    for (let i = experiment.first; i < experiment.first + experiment.count; ++i) {
      indices.set(data.trials.number[i], i);
    }
    for (let n = 0; n < trial.length; ++n) {
      const i = indices.get(trial[n]);
      if (!state.visible[i]) continue;
      const name = data.stateOf(i);
      if (!used.has(name)) used.set(name, new Set());
      used.get(name).add(i);
      const y = this.box.top + (lanes + lane[n]) * each;
      this.rows.push([x(from[n]), Math.max(x(to[n]), x(from[n]) + 1), y, y + each, i]);
    }
  }

  // Narrow bars of one state beside each other are one: rounded to pixels their
  // gaps would look like load.
  drawBars() {
    const color = ([, , , , i]) => stateColor(this.data.stateOf(i));
    const bars = this.rows.slice().sort((a, b) => a[2] - b[2] || a[0] - b[0]);
    for (let n = 0, next = 0; n < bars.length; n = next) {
      const [left, right, top, bottom] = bars[n];
      let end = right;
      for (next = n + 1; next < bars.length && bars[next][2] === top && bars[next][0] < end + 1 &&
          bars[next][1] - bars[next][0] < 3 && end - bars[next - 1][0] < 3 &&
          color(bars[next]) === color(bars[n]); ++next) end = Math.max(end, bars[next][1]);
      this.context.fillStyle = color(bars[n]);
      this.context.fillRect(left, top + (bottom - top) * 0.08, end - left - (end - left > 3 ? 0.5 : 0),
          (bottom - top) * 0.84);
    }
  }

  draw() {
    const {data} = this;
    this.rows = [];
    this.legend.replaceChildren();
    const all = data.experiments.map((experiment) => this.runsOf(experiment));
    const ends = all.map(({to}) => to.reduce((a, b) => Math.max(a, b), 0));
    const rows = all.map(({lane}) => lane.reduce((a, b) => Math.max(a, b + 1), 0));
    const lanes = rows.reduce((a, b) => a + b, 0);
    if (!lanes) return this.say('No trial has started.');
    const {left, top, right, bottom} = this.box;
    const last = Math.max(...ends) || 1;
    const unit = timeUnit(last);
    const x = scaleOf({low: 0, high: last}, left, right);
    this.zoomedScales(x, null);
    drawAxis(this.svg, x.copy().domain(x.domain().map((end) => end / unit.seconds)), 'bottom',
        {at: top + Math.min(40 * lanes, bottom - top), length: right - left, label: `${unit.name} since the start of the experiment`});
    const used = new Map();
    const each = Math.min(40, (bottom - top) / lanes);
    let above = 0;
    data.experiments.forEach((experiment, e) => {
      this.drawRuns(experiment, above, x, each, used);
      this.svg.append('text').attr('class', 'mark').attr('text-anchor', 'end').attr('x', left - 6)
          .attr('y', top + (above + rows[e] / 2) * each + 4)
          .text(data.experiments.length > 1 ? experiment.id : '');
      above += rows[e];
    });
    this.clip();
    this.drawBars();
    this.context.restore();
    this.legend.replaceChildren(...[...used].map(([name, trials]) => {
      const key = element('span', {class: 'key'}, element('span', {class: 'swatch block'}),
          `${name} ${countOf(trials.size, 'trial')}`);
      key.firstChild.style.background = stateColor(name);
      return key;
    }));
    return undefined;
  }

  tableOf() {
    const rows = this.data.experiments.flatMap((experiment) => {
      const {trial, from, to} = this.runsOf(experiment);
      return Array.from(trial, (number, n) => [`${experiment.id}.${number}`, from[n], to[n]]);
    }).sort((a, b) => a[1] - b[1]);
    return {heads: ['trial', 'state', 'from', 'to', 'time'], rows: rows.map(([id, from, to]) => {
      const trial = this.data.trialOf(id);
      return this.state.visible[trial] ? [id, this.data.stateOf(trial), ...[from, to, to - from]
          .map(formatDuration)] : null;
    }).filter(Boolean)};
  }

  highlight(trial) {
    this.clip();
    for (const [from, to, top, bottom, i] of this.rows || []) {
      if (i !== trial) continue;
      this.context.strokeStyle = themeColor('text');
      this.context.lineWidth = 2;
      this.context.strokeRect(from, top, to - from, bottom - top);
    }
    this.context.restore();
  }

  find(x, y) {
    const hit = (this.rows || []).find(([from, to, low, high]) =>
      x >= from && x <= to && y >= low && y < high);
    return hit ? hit[4] : -1;
  }

  facts(trial) {
    return [...super.facts(trial), formatDuration(this.data.trials.seconds[trial])];
  }
}

// What became of trials after a rung; engine/report/plot_trials.cc has the same.
const AFTER_RUNG = [['went_on', 0, 'completed the next rung'],
  ['completed', 2, 'completed: trained as long as it was to'],
  ['ended', 5, 'ended after this rung'],
  ['open', 4, 'has not ended: running or waiting']];

/** How many trials reached each rung of the search. */
export class Rungs extends Chart {
  constructor(state) {
    super(state, {id: 'rungs', title: 'Rungs', about:
      'How many trials completed each rung, a length at which the search decides which trials ' +
      'train on.'});
    this.margin.left = 90;
    this.legend = element('div', {class: 'legend'}, ...AFTER_RUNG.map(([, color, name]) => {
      const key = element('span', {class: 'key'}, element('span', {class: 'swatch block'}), name);
      key.firstChild.style.background = categoryStyle(color);
      return key;
    }));
    this.card.insertBefore(this.legend, this.note);
  }

  rowsOf(experiment) {
    const trials = d3.range(experiment.first, experiment.first + experiment.count)
        .filter((i) => this.state.visible[i]);
    if (!trials.length) return [];
    const ends = trials.map((i) => (this.data.stateOf(i) === 'COMPLETED' ? 'completed' :
      ENDED.has(this.data.stateOf(i)) ? 'ended' : 'open'));
    return countRungs(trials.map((i) => this.data.trials.rung[i]), ends)
        .map((rung, i) => ({...rung, i, experiment}));
  }

  draw() {
    const rows = this.data.experiments.flatMap((experiment) => this.rowsOf(experiment));
    this.rows = rows.slice(0, MAX_ROWS);
    if (!rows.length) return this.say('No trial is selected.');
    const most = Math.max(1, ...rows.map((row) => row.reached));
    const {left, top, right, bottom} = this.box;
    const x = scaleOf({low: 0, high: most}, left, right - 40);
    const each = (bottom - top) / this.rows.length;
    drawAxis(this.svg, x, 'bottom', {at: bottom, length: right - left, label: 'trials'});
    this.rows.forEach((row, n) => {
      let from = left;
      const y = top + n * each;
      for (const [part, color] of AFTER_RUNG) {
        this.context.fillStyle = categoryColor(color);
        const width = x(row[part]) - left;
        this.context.fillRect(from, y + each * 0.12, width, each * 0.76);
        from += width;
      }
      const text = this.svg.append('text').attr('class', 'mark').attr('y', y + each * 0.5 + 4);
      text.clone().attr('x', left - 6).attr('text-anchor', 'end').text(this.nameOf(row));
      text.attr('x', from + 5).text(row.reached);
    });
    return this.say(rows.length > MAX_ROWS ? `${MAX_ROWS} of ${rows.length} rungs are shown.` : '');
  }

  tableOf() {
    return {heads: ['rung', 'trials', ...AFTER_RUNG.map(([, , name]) => name)], rows: (this.rows || []).map((row) =>
      [this.nameOf(row), String(row.reached), ...AFTER_RUNG.map(([part]) => String(row[part]))])};
  }

  nameOf(row) {
    const several = this.data.experiments.length > 1;
    return (several ? row.experiment.id + ' · ' : '') + (row.i ? `rung ${row.i}` : 'created');
  }

  find() { return -1; }

  describe(px, py) {
    const {top, bottom} = this.box;
    const row = py >= top && py < bottom &&
        this.rows[Math.floor((py - top) / (bottom - top) * this.rows.length)];
    return row ? `${this.nameOf(row)}: ${countOf(row.reached, 'trial')}\n` +
        AFTER_RUNG.map(([part, , name]) => `${row[part]}: ${name}`).join('\n') : '';
  }
}
