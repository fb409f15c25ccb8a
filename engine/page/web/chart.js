// A chart: a canvas for marks, one above it for the trial that is pointed at,
// and an SVG for axes. A kind of plot derives from Chart and draws.
//
// State tells charts about changes. A chart then draws itself once in the next
// animation frame, however many changes there were (redraw). Pointing at a
// trial draws on the upper canvas only (drawHovered), because there may be very
// many marks on the lower one, and only in charts that are in sight. `marks`
// has where each trial was drawn; the pointer and the keyboard find trials
// there. While a brush or a name is dragged, `busy` stops drawing: it would
// remove the element that is dragged.
//
// The other half are helpers that the plots share: elements, scales, axes,
// colors.

/* global d3 */

import {ranksOf} from './analysis.js';
import {dropNoise, formatNumber, textOf} from './data.js';

// Colors that people with any color vision tell apart (Okabe and Ito, 2008).
export const PALETTE = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00',
  '#56b4e9', '#8c6bb1', '#7f7f7f'];

// From the best trial to the worst: a path through viridis, readable without
// color by its lightness; style.css has the same for the legend.
const RANKS = d3.interpolateRgbBasis(['#440154', '#3b528b', '#21918c', '#5ec962', '#d8c11a']);

let dark = false;  // the theme

/** Color of a share: 0 for the best, 1 for the worst. The best stands out from the background. */
export function rankColor(share) { return RANKS(dark ? 1 - share : share); }

export function experimentColor(index) { return PALETTE[index % PALETTE.length]; }

/** Name of a metric by its key. */
export const nameOf = (key) => key.slice(key.indexOf('/') + 1);

/** Names of the places on an axis of choices; null for numbers. */
export const namesOf = (axis) => (axis.choices.length ? axis.choices.map(textOf) : null);

/** "1 trial", "3 trials" */
export const countOf = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** What the experiments count in `batches`: "batches", or "batches or epochs" if they differ. */
export function lengthLabel({experiments}) {
  const units = new Set(experiments.map(({unit = 'batches'}) => unit));
  return [...units].sort().join(' or ') || 'batches';
}

/** A sentence if the experiments count different units; empty otherwise. */
export function differentUnits({experiments}) {
  const units = new Map();
  for (const {unit = 'batches', id} of experiments) units.set(unit, [...units.get(unit) || [], id]);
  if (units.size < 2) return '';
  const texts = [...units].map(([unit, ids]) => (ids.length === 1 ?
    `experiment ${ids[0]} counts ${unit}` : `experiments ${ids.join(', ')} count ${unit}`));
  return `Units differ: ${texts.join('; ')}.`;
}

/** True if the epochs of an experiment's values are known. */
export const knowsEpochs = ({unit, metrics}) => unit === 'epochs' || Boolean(metrics.batches_per_epoch);

/** "val_loss (smaller is better)", for an axis. */
export function metricLabel(state, key) {
  return `${shorten(nameOf(key), 28)}${key.startsWith('training/') ? ' of training' : ''} ` +
      `(${state.hasChoiceOfDirection(key) ? 'if ' : ''}` +
      `${state.smallerIsBetter(key) ? 'smaller' : 'larger'} is better)`;
}

/** "y: smaller is better", which a click turns round where it is not known. */
export function directionButton(state, key, label) {
  const text = `${label}${state.smallerIsBetter(key) ? 'smaller' : 'larger'} is better`;
  if (!state.hasChoiceOfDirection(key)) return element('span', {class: 'fact'}, text);
  return element('button', {type: 'button', title: 'No searcher used this metric. Click if the ' +
      'other direction is better.', onclick: () => state.turnDirection(key)}, text + ' ⇄');
}

/** The colors of ranks, for a legend. */
export function rankLegend() {
  return element('div', {class: 'legend fact'}, 'best', element('span', {class: 'gradient'}), 'worst');
}

/** A unit in which `seconds` is a number that is easily read: {name, seconds}. */
export function timeUnit(seconds) {
  if (seconds < 600) return {name: 'seconds', seconds: 1};
  if (seconds < 3 * 3600) return {name: 'minutes', seconds: 60};
  if (seconds < 72 * 3600) return {name: 'hours', seconds: 3600};
  return {name: 'days', seconds: 86400};
}

/** Creates an element with attributes, and texts or elements in it. */
export function element(tag, attributes = {}, ...content) {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) created.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) created.setAttribute(name, value === true ? '' : value);
  }
  created.append(...content);
  return created;
}

export function themeColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
}

/** A select of [value, text] pairs. */
export function choice(label, options, value, onChange) {
  const select = element('select', {'aria-label': label, onchange: () => onChange(select.value)},
      ...options.map(([one, text]) => element('option', {value: one}, shorten(text, 80))));
  select.value = value;
  return element('label', {class: 'choice'}, label, select);
}

/** A scale from values to pixels: linear, logarithmic, or by names. */
export function scaleOf({low, high, log = false, names = null}, from, to) {
  if (names && names.length) {
    return d3.scaleLinear().domain([-0.5, names.length - 0.5]).range([from, to]);
  }
  if (!(high > low)) {  // one value: in the middle
    const pad = Math.abs(low) * 0.05 || 1;
    [low, high] = [low - pad, low + pad];
    log = log && low > 0;
  }
  const scale = log && low > 0 ? d3.scaleLog() : d3.scaleLinear();
  return scale.domain([low, high]).range([from, to]);
}

/** Range of the finite values for which `keep(i)` holds; for `log` the positive ones. */
export function rangeOf(values, keep = () => true, log = false) {
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < values.length; ++i) {
    const value = values[i];
    if (!Number.isFinite(value) || (log && value <= 0) || !keep(i)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? {low, high} : null;
}

// Powers of ten from `low` to `high`, at most `count`.
function powersOf10(low, high, count) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.ceil((last - first + 1) / count);
  const ticks = [];
  for (let exponent = first; exponent <= last; exponent += step) ticks.push(Number('1e' + exponent));
  return ticks;
}

// At most eight characters or so.
function tickText(value) {
  const size = Math.abs(value);
  if (size === 0 || (size >= 1e-3 && size < 1e6)) return formatNumber(dropNoise(value));
  return value.toExponential(3).replace(/\.?0+e/, 'e').replace('+', '').replaceAll('-', '−');
}

/** An axis of a plot with ticks that fit its length. */
export function drawAxis(svg, scale, place, {at, length, label, names = null, across = 0}) {
  const vertical = place === 'left';
  const axis = vertical ? d3.axisLeft(scale) : d3.axisBottom(scale);
  const count = Math.max(2, Math.floor(length / (vertical ? 32 : 76)));
  if (names && names.length) {
    const step = Math.ceil(names.length / Math.max(1, Math.floor(length / (vertical ? 14 : 60))));
    axis.tickValues(names.map((_, i) => i).filter((i) => i % step === 0))
        .tickFormat((i) => shorten(String(names[i]), 14));
  } else if (scale.base) {
    const [low, high] = scale.domain();
    const decades = Math.log10(high / low);
    if (decades < 1.5) axis.tickValues(d3.ticks(low, high, count));
    else axis.tickValues(powersOf10(low, high, count));
    axis.tickFormat(tickText);
  } else {
    const [low, high] = scale.domain();
    axis.ticks(count).tickFormat(Math.max(-low, high) >= 1e5 ? d3.format('~s') : tickText);
  }
  const group = svg.append('g').attr('class', 'axis')
      .attr('transform', vertical ? `translate(${at},0)` : `translate(0,${at})`).call(axis);
  if (across) {
    group.selectAll('.tick line').clone().attr(vertical ? 'x2' : 'y2', across).attr('class', 'grid');
  }
  if (label) {
    const range = scale.range();
    group.append('text').attr('class', 'axis-label').text(shorten(label, 60))
        .attr('text-anchor', vertical ? 'start' : 'end')
        .attr('x', vertical ? -46 : Math.max(...range)).attr('y', vertical ? Math.min(...range) - 12 : 34);
  }
  return group;
}

export function shorten(text, length) {
  return text.length <= length ? text : text.slice(0, length - 1) + '…';
}

/** Base of all plots. A derived class has draw(), and find(x, y) for the pointer. */
export class Chart {
  constructor(state, {id, title, height = 300, wide = false, about = ''}) {
    this.state = state;
    this.data = state.data;
    this.height = height;
    this.margin = {top: 28, right: 16, bottom: 42, left: 58};
    this.note = element('p', {class: 'note', role: 'status'});
    this.controls = element('div', {class: 'controls'});
    this.canvas = element('canvas');
    this.overlay = element('canvas');
    this.svgNode = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    this.svg = d3.select(this.svgNode);
    this.plot = element('div', {class: 'plot', tabindex: '0', role: 'img', 'aria-label': title},
        this.canvas, this.overlay, this.svgNode);
    this.plot.style.height = height + 'px';
    this.tip = element('div', {class: 'tip', hidden: true});
    this.plot.append(this.tip);
    this.card = element('section', {class: wide ? 'card wide' : 'card', id},
        element('h2', {}, title), element('p', {class: 'about'}, about),
        this.controls, this.plot, this.note);
    this.plot.addEventListener('pointermove', (event) => this.point(event));
    this.plot.addEventListener('pointerleave', () => state.keyed || this.leave());
    this.plot.addEventListener('click', (event) => this.click(event));
    this.plot.addEventListener('keydown', (event) => this.key(event));
    this.plot.addEventListener('blur', () => { state.keyed = false; this.leave(); });
    new ResizeObserver(() => this.redraw()).observe(this.plot);
    state.onChange(() => this.redraw());
    state.onHover(() => (this.inSight ? this.drawHovered() : this.stale = true));
    new IntersectionObserver(([entry]) => {
      this.inSight = entry.isIntersecting;
      if (this.inSight && this.stale) this.drawHovered();
    }).observe(this.plot);
  }

  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      if (this.busy) return;  // with a drag, whose elements must stay
      this.prepare();
      this.say('');
      this.draw();
      this.drawn = true;
      this.drawHovered();
    });
  }

  // Draws the trial that is pointed at, and nothing else: there may be very many.
  drawHovered() {
    this.stale = false;
    if (!this.drawn || this.busy) return;
    const {hovered, visible} = this.state;
    const {context} = this;
    this.context = this.overlay.getContext('2d');
    this.context.clearRect(0, 0, this.width, this.height);
    if (hovered >= 0 && visible[hovered]) this.highlight(hovered);
    this.context = context;
  }

  /** Marks a trial, over the drawing. */
  highlight(trial) {
    for (const [x, y, marked] of this.marks) if (marked === trial) this.ring(x, y);
  }

  prepare() {
    dark = themeColor('dark') === '1';
    this.width = this.plot.clientWidth;
    const ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.overlay, this.canvas]) {
      canvas.width = Math.round(this.width * ratio);  // clears it
      canvas.height = Math.round(this.height * ratio);
      canvas.style.width = this.width + 'px';
      canvas.style.height = this.height + 'px';
      this.context = canvas.getContext('2d');
      this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.svg.attr('width', this.width).attr('height', this.height);
    this.svg.selectAll('.axis, .mark').remove();
    const {top, right, bottom, left} = this.margin;
    this.box = {left, top, right: Math.max(this.width - right, left + 10),
      bottom: this.height - bottom};
  }

  /** A sentence below the plot: why it is empty, or what it leaves out. */
  say(text) { this.note.textContent = text; }

  clip() {
    const {left, top, right, bottom} = this.box;
    this.context.save();
    this.context.beginPath();
    this.context.rect(left, top, right - left, bottom - top);
    this.context.clip();
  }

  axes(x, y, labels, names = {}) {
    const {left, top, right, bottom} = this.box;
    drawAxis(this.svg, x, 'bottom', {at: bottom, length: right - left, label: labels.x, names: names.x});
    drawAxis(this.svg, y, 'left', {at: left, length: bottom - top, label: labels.y,
      names: names.y, across: right - left});
  }

  dot(x, y, color, radius = 3) {
    const {context} = this;
    context.fillStyle = color;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
  }

  cross(x, y, color) {
    const {context} = this;
    context.strokeStyle = color;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x - 3, y - 3);
    context.lineTo(x + 3, y + 3);
    context.moveTo(x + 3, y - 3);
    context.lineTo(x - 3, y + 3);
    context.stroke();
  }

  ring(x, y) {
    const {context} = this;
    context.strokeStyle = themeColor('text');
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x, y, 6, 0, 2 * Math.PI);
    context.stroke();
  }

  /** What is at this place beside trials, for the pointer. */
  describe() { return ''; }

  // Remembers where trials are drawn, for the pointer: [x, y, trial] each.
  get marks() { return this.places ||= []; }

  find(x, y) {
    let nearest = -1;
    let best = 144;  // within 12 pixels
    for (const [px, py, trial] of this.marks) {
      const far = (px - x) ** 2 + (py - y) ** 2;
      if (far < best) [best, nearest] = [far, trial];
    }
    return nearest;
  }

  point(event) {
    if (this.state.keyed) return;
    const box = this.plot.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const trial = this.find(x, y);
    this.pointAt(trial);
    const text = trial >= 0 ? this.textOf(trial) : this.describe(x, y);
    this.tip.hidden = !text;
    if (!text) return;
    this.showTip(text, x, y);
  }

  showTip(text, x, y) {
    this.tip.hidden = false;
    this.tip.textContent = text;
    this.tip.style.left = Math.min(x + 12, Math.max(0, this.width - 190)) + 'px';
    this.tip.style.top = Math.min(y + 12, this.height - 40) + 'px';
  }

  // Arrows go through the trials from left to right, Enter shows one.
  key(event) {
    if (event.key === 'Enter' && this.state.hovered >= 0) {
      event.preventDefault();  // the key would press the button that gets the focus
      this.state.set({trial: this.data.idOf(this.state.hovered)});
      return;
    }
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step || !this.marks.length) return;
    event.preventDefault();
    this.state.keyed = true;
    const first = new Map();  // mark of each trial
    for (const mark of this.marks) if (!first.has(mark[2])) first.set(mark[2], mark);
    const order = [...first.values()].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const at = order.findIndex(([, , trial]) => trial === this.state.hovered);
    const [x, y, trial] = order[(at < 0 && step < 0 ? order.length - 1 :
      at + step + order.length) % order.length];
    this.pointAt(trial);
    this.showTip(this.textOf(trial), x, y);
  }

  leave() {
    this.tip.hidden = true;
    this.pointAt(-1);
  }

  // Forgets only a trial that was chosen here: a plot that scrolls under a still
  // mouse must not end what the keyboard does elsewhere.
  pointAt(trial) {
    if (trial >= 0 || this.pointed === this.state.hovered) this.state.hover(trial);
    this.pointed = trial;
  }

  click(event) {
    const box = this.plot.getBoundingClientRect();
    const trial = this.find(event.clientX - box.left, event.clientY - box.top);
    if (trial >= 0) this.state.set({trial: this.data.idOf(trial)});
  }

  textOf(trial) {
    const key = this.state.metric();
    return `${this.data.idOf(trial)} · ${this.data.stateOf(trial)}\n` +
        `${shorten(nameOf(key), 60)}: ${formatNumber(this.data.valuesAtBest(key)[trial])}`;
  }

  /** Sentences on values that an axis cannot show, of the trials or points counted. */
  omissions({infinite = 0, notPositive = 0}, noun = 'value') {
    return [infinite ? `${countOf(infinite, noun)} not finite, not drawn.` : '',
      notPositive ? `${countOf(notPositive, noun)} not positive, not drawn on a logarithmic scale.` : '']
        .filter(Boolean);
  }
}

/**
 * Shares by rank of the visible trials' values: 0 the best, 1 the worst, equal
 * values the same, NaN for none; and those trials from the best to the worst.
 */
export function rankShares(state, values, smaller) {
  const found = [];
  for (let i = 0; i < values.length; ++i) {
    if (state.visible[i] && Number.isFinite(values[i])) found.push(i);
  }
  const ranks = ranksOf(found.map((i) => (smaller ? values[i] : -values[i])));
  const shares = new Float64Array(values.length).fill(NaN);
  found.forEach((trial, n) => {
    shares[trial] = found.length > 1 ? (ranks[n] - 1) / (found.length - 1) : 0;
  });
  return {shares, order: found.sort((a, b) => shares[a] - shares[b] || a - b)};
}
