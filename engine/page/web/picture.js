// Saves a plot as a file: SVG, or PNG of twice the size.
//
// The Content-Security-Policy of a report lets no image load, so that an SVG
// cannot become a PNG by drawing it. Instead everything is drawn by the methods
// of a canvas: marks by the plot itself, axes and legend from their elements.
// SvgContext has those methods, as far as plots use them, and writes elements.

/* global d3 */

const LINE = 18;  // height of a line of text
const FONT = 'system-ui, sans-serif';

const coordinate = (value) => String(Math.round(value * 100) / 100);

// XML allows no control characters.
const escapeXml = (text) => text.replace(/[\u0000-\u001f\ufffe\uffff]/g, '\ufffd')
    .replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

/** A context of a canvas that writes SVG. */
export class SvgContext {
  constructor(width, height) {
    Object.assign(this, {width, height, fillStyle: '#000', strokeStyle: '#000', lineWidth: 1, globalAlpha: 1,
      font: '12px', textAlign: 'left', dash: [], clipped: '', x: 0, y: 0});
    this.saved = [];
    this.defs = [];
    this.parts = [];
    this.path = '';
  }

  save() {
    const {fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, dash, clipped, x, y} = this;
    this.saved.push({fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, dash, clipped, x, y});
  }

  restore() { Object.assign(this, this.saved.pop()); }

  translate(x, y) {
    this.x += x;
    this.y += y;
  }

  setLineDash(dash) { this.dash = dash; }
  beginPath() { this.path = ''; }
  closePath() { this.path += 'Z'; }
  moveTo(x, y) { this.path += 'M' + this.point(x, y); }
  lineTo(x, y) { this.path += (this.path ? 'L' : 'M') + this.point(x, y); }
  rect(x, y, width, height) { this.path += this.rectangle(x, y, width, height); }

  // Whole circles only.
  arc(x, y, r) {
    const half = ` ${coordinate(r)} ${coordinate(r)} 0 1 0 `;
    this.path += `M${this.point(x - r, y)}a${half}${coordinate(2 * r)} 0a${half}${coordinate(-2 * r)} 0Z`;
  }

  clip() {
    this.defs.push(`<clipPath id="clip${this.defs.length}"><path d="${this.path}"/></clipPath>`);
    this.clipped = ` clip-path="url(#clip${this.defs.length - 1})"`;
  }

  fill() { this.add(this.path, this.filling()); }
  stroke() { this.add(this.path, this.stroking()); }
  fillRect(...box) { this.add(this.rectangle(...box), this.filling() + ' shape-rendering="crispEdges"'); }
  strokeRect(...box) { this.add(this.rectangle(...box), this.stroking()); }

  // A halo around the text that follows.
  strokeText() {
    this.halo = ` stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}" paint-order="stroke"` +
        ' stroke-linejoin="round"';
  }

  fillText(text, x, y) {
    const anchor = {center: 'middle', right: 'end'}[this.textAlign] || 'start';
    const [at, height] = [this.point(x, y).split(' '), /([\d.]+)px/.exec(this.font)[1]];
    this.parts.push(`<text x="${at[0]}" y="${at[1]}" font-size="${height}" text-anchor="${anchor}"` +
        (/bold|600/.test(this.font) ? ' font-weight="bold"' : '') +
        `${this.filling()}${this.halo || ''}>${escapeXml(text)}</text>`);
    this.halo = '';
  }

  toString() {
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${this.width} ${this.height}" width="${this.width}" ` +
        `height="${this.height}" font-family="${FONT}">\n<defs>${this.defs.join('')}</defs>\n${this.parts.join('\n')}\n</svg>\n`;
  }

  point(x, y) { return coordinate(x + this.x) + ' ' + coordinate(y + this.y); }

  rectangle(x, y, width, height) {
    return `M${this.point(x, y)}h${coordinate(width)}v${coordinate(height)}h${coordinate(-width)}Z`;
  }

  opacity(name) { return this.globalAlpha < 1 ? ` ${name}-opacity="${coordinate(this.globalAlpha)}"` : ''; }
  filling() { return ` fill="${this.fillStyle}"${this.opacity('fill')}`; }

  stroking() {
    return ` fill="none" stroke="${this.strokeStyle}" stroke-width="${coordinate(this.lineWidth)}" stroke-linejoin="round"` +
        this.opacity('stroke') + (this.dash.length ? ` stroke-dasharray="${this.dash.join(' ')}"` : '');
  }

  add(path, style) {
    if (path) this.parts.push(`<path d="${path}"${style}${this.clipped}/>`);
  }
}

// Draws the lines, paths and texts of axes.
function drawElements(context, svg) {
  const number = (node, name) => Number(node.getAttribute(name)) || 0;
  for (const node of svg.querySelectorAll('line, path, text, rect.selection')) {
    const style = getComputedStyle(node);
    if (style.display === 'none') continue;
    const {e, f} = node.getCTM();
    context.save();
    context.translate(e, f);
    context.globalAlpha = Number(style.opacity);
    context.fillStyle = style.fill;
    context.strokeStyle = style.stroke;
    context.lineWidth = parseFloat(style.strokeWidth) || 1;
    context.beginPath();
    if (node.tagName === 'text') {
      const size = parseFloat(style.fontSize);
      const text = [...node.childNodes].filter((one) => one.nodeType === Node.TEXT_NODE)
          .map((one) => one.data).join('');
      const dy = node.getAttribute('dy') || '0';
      context.font = `${size}px ${FONT}`;
      context.textAlign = {middle: 'center', end: 'right'}[style.textAnchor] || 'left';
      const at = [number(node, 'x') + number(node, 'dx'),
        number(node, 'y') + parseFloat(dy) * (dy.endsWith('em') ? size : 1)];
      if (style.stroke !== 'none') context.strokeText(text, ...at);
      context.fillText(text, ...at);
    } else if (node.tagName === 'rect') {
      context.globalAlpha = 0.35;
      context.fillRect(...['x', 'y', 'width', 'height'].map((name) => number(node, name)));
    } else if (node.tagName === 'line') {
      context.moveTo(number(node, 'x1'), number(node, 'y1'));
      context.lineTo(number(node, 'x2'), number(node, 'y2'));
      context.stroke();
    } else {
      let [x, y] = [0, 0];  // d3-axis writes M, H and V
      for (const [, command, rest] of node.getAttribute('d').matchAll(/([MLHV])([^MLHV]*)/g)) {
        const numbers = rest.split(/[ ,]/).map(Number);
        if (command !== 'V') [x] = numbers;
        if (command !== 'H') y = numbers[numbers.length - 1];
        if (command === 'M') context.moveTo(x, y);
        else context.lineTo(x, y);
      }
      context.stroke();
    }
    context.restore();
  }
}

// The parts of a legend: texts, colors of marks, and the gradient of ranks.
function legendParts(legends, measure) {
  return legends.flatMap((legend) => [...legend.childNodes].map((node) => {
    const swatch = node.querySelector?.('.swatch');
    if (node.className === 'gradient') {
      return {width: 120, colors: getComputedStyle(node).getPropertyValue('--ranks').split(',')};
    }
    const style = swatch && getComputedStyle(swatch);
    const block = swatch?.classList.contains('block');
    return {text: node.textContent.trim(), block, dashed: style?.borderTopStyle === 'dashed',
      color: style && (block ? style.backgroundColor : style.borderTopColor),
      width: (swatch ? 22 : 0) + measure(node.textContent.trim())};
  })).filter(({text, colors}) => text || colors);
}

function drawLegend(context, parts, room, color) {
  let [x, y] = [0, LINE];
  for (const part of parts) {
    if (x > 0 && x + part.width > room) [x, y] = [0, y + LINE];
    const from = x;
    if (part.colors) {
      for (let i = 0; i < 40; ++i) {
        const place = i / 39 * (part.colors.length - 1);
        const low = Math.min(Math.floor(place), part.colors.length - 2);
        context.fillStyle = d3.interpolateRgb(part.colors[low].trim(), part.colors[low + 1].trim())(place - low);
        context.fillRect(x + 3 * i, y - 10, 3, 10);
      }
    } else if (part.color) {
      context.fillStyle = context.strokeStyle = part.color;
      context.lineWidth = 3;
      context.setLineDash(part.dashed ? [4, 3] : []);
      context.beginPath();
      context.moveTo(x, y - 4);
      context.lineTo(x + 16, y - 4);
      if (part.block) context.fillRect(x + 3, y - 9, 10, 10);
      else context.stroke();
      context.setLineDash([]);
      x += 22;
    }
    if (part.text) {
      context.font = `12px ${FONT}`;
      context.textAlign = 'left';
      context.fillStyle = color;
      context.fillText(part.text, x, y);
    }
    x = from + part.width + 14;
  }
}

function download(blob, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** "3_digits_history.svg": letters and digits of any script, so that every system takes it. */
export function fileName(experiments, plot, kind) {
  const ids = experiments.map(({id}) => id).join('+');
  const name = experiments.length === 1 ? '_' + experiments[0].name : '';
  return `${ids}${name}`.slice(0, 80).replace(/[^\p{L}\p{N}+_.-]+/gu, '-') +
      `_${plot.slice(0, 60)}.${kind}`.replace(/[^\p{L}\p{N}+_.-]+/gu, '-');
}

/**
 * Draws a plot with its title and legend as `kind`, 'svg' or 'png', and returns
 * the text or a canvas. `plot`: {width, height, svg, title, legends, draw(context)},
 * `colors`: {card, text, quiet}.
 */
export function drawPicture(plot, kind, colors) {
  const canvas = document.createElement('canvas');
  const measured = canvas.getContext('2d');
  measured.font = `12px ${FONT}`;
  const parts = legendParts(plot.legends, (text) => measured.measureText(text).width);
  const room = plot.width - 24;
  let [lines, x] = [parts.length ? 1 : 0, 0];
  for (const {width} of parts) {
    if (x > 0 && x + width > room) [x, lines] = [0, lines + 1];
    x += width + 14;
  }
  const top = 2 * LINE;
  const height = top + plot.height + LINE * (lines + 0.5);
  let context = new SvgContext(plot.width, height);
  if (kind === 'png') {
    [canvas.width, canvas.height] = [2 * plot.width, 2 * height];
    context = measured;
    context.scale(2, 2);
  }
  context.fillStyle = colors.card;
  context.fillRect(0, 0, plot.width, height);
  context.font = `600 14px ${FONT}`;
  context.fillStyle = colors.text;
  context.fillText(plot.title, 12, LINE + 4);
  context.translate(0, top);
  context.save();
  plot.draw(context);
  context.restore();
  drawElements(context, plot.svg);
  context.translate(12, plot.height);
  drawLegend(context, parts, room, colors.quiet);
  return kind === 'png' ? canvas : context.toString();
}

/** Saves what drawPicture() returns. */
export async function savePicture(plot, kind, colors, name) {
  const drawn = drawPicture(plot, kind, colors);
  const blob = kind === 'svg' ? new Blob([drawn], {type: 'image/svg+xml'}) :
    await new Promise((done) => { drawn.toBlob(done, 'image/png'); });
  download(blob, name);
}
