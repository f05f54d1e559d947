"use strict";
// Draws the timelines of a crashsim report from the JSON beside them. Everything that comes from a
// recording is put on the page by textContent only: it was written by an untrusted guest.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const FATES = ["late", "durable", "kept", "torn", "dropped"]; // in the order of what matters
  const FATE_WORDS = {
    durable: "durable: it had to survive",
    kept: "not durable yet, but it survived this crash",
    dropped: "lost: it was not durable yet",
    torn: "torn: only a part of it reached the disk",
    late: "after the power cut: it never happened",
  };
  const OPERATIONS = { 1: "write", 2: "write of zeroes", 3: "discard" };
  const DETAIL_LIMIT = 1200; // more writes than this in the window are drawn as bins
  const ROW_LIMIT = 26;
  const BIN_PIXELS = 4;

  const errors = [];
  addEventListener("error", (event) => {
    errors.push(String(event.message));
    document.documentElement.dataset.scriptErrors = String(errors.length);
  });
  document.documentElement.dataset.scriptErrors = "0";

  function make(parent, tag, attributes, text) {
    const node = document.createElementNS(SVG, tag);
    for (const name in attributes) node.setAttribute(name, attributes[name]);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  function bytes(count) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    let value = count;
    while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
    return (Number.isInteger(value) ? String(value) : value.toFixed(2)) + " " + units[unit];
  }

  const count = (number, noun, plural) =>
    number.toLocaleString("en") + " " + (number === 1 ? noun : plural || noun + "s");

  function milliseconds(before) {
    const size = Math.abs(before);
    const words = size >= 1000 ? (size / 1000).toFixed(2) + " s" : size.toFixed(size < 10 ? 2 : 0) + " ms";
    return `${words} ${before >= 0 ? "before" : "after"}`;
  }

  function shorten(text, width) {
    if (text.length <= width) return text;
    if (width < 4) return "";
    const head = Math.floor((width - 1) / 3);
    return text.slice(0, head) + "…" + text.slice(text.length - (width - 1 - head));
  }

  function niceStep(rough) {
    const power = Math.pow(10, Math.floor(Math.log10(Math.max(1, rough))));
    return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough) || 10 * power;
  }

  // First index of a sorted array whose value is not below `value`.
  function lowerBound(sorted, value) {
    let low = 0;
    let high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  }

  class Timeline {
    constructor(figure) {
      this.figure = figure;
      this.data = JSON.parse(document.getElementById(figure.dataset.source).textContent);
      this.writes = this.data.writes;
      this.plot = figure.querySelector(".plot");
      this.overview = figure.querySelector(".overview");
      this.tip = figure.querySelector(".tip");
      this.detail = figure.querySelector(".detail");
      this.named = this.writes.what.some((what) => what >= 0);
      this.rowMode = this.named ? "what" : "offset";
      this.selected = -1;
      this.view = this.data.focus.slice();
      // The longest time from a write to its durability says how far back a window has to look.
      this.reach = 1;
      for (let i = 0; i < this.size; i += 1) {
        this.reach = Math.max(this.reach, this.lastPosition(i) - this.writes.submit[i]);
      }
      this.listen();
      new ResizeObserver(() => this.draw()).observe(figure);
      this.draw();
    }

    get size() { return this.writes.number.length; }
    fate(i) { return this.data.fates[this.writes.fate[i]]; }
    what(i) { return this.writes.what[i] < 0 ? "" : this.data.strings[this.writes.what[i]]; }
    title(i) { return this.what(i) || `${OPERATIONS[this.writes.operation[i]]} at ${bytes(this.writes.offset[i])}`; }

    // Where the line of a write ends: at its durability, or at the crash, or at the log's end.
    lastPosition(i) {
      const { submit, complete, durable } = this.writes;
      const fate = this.fate(i);
      if (fate === "late") return complete[i] < 0 ? submit[i] + 1 : complete[i];
      if (fate === "durable") return durable[i];
      return this.data.cut;
    }

    // ---- what is visible -------------------------------------------------------------------
    visible() {
      const [from, to] = this.view;
      const first = lowerBound(this.writes.submit, from - this.reach);
      const last = lowerBound(this.writes.submit, to);
      const found = [];
      for (let i = first; i < last; i += 1) if (this.lastPosition(i) >= from) found.push(i);
      return found;
    }

    rows(indices) {
      const rows = new Map();
      const loose = [];
      for (const i of indices) {
        const name = this.rowMode === "what" ? this.what(i) : "";
        if (!name) { loose.push(i); continue; }
        if (!rows.has(name)) rows.set(name, { label: name, members: [] });
        rows.get(name).members.push(i);
      }
      let named = [...rows.values()];
      if (named.length > ROW_LIMIT) {
        named.sort((a, b) => this.weight(b) - this.weight(a));
        for (const row of named.splice(ROW_LIMIT - 4)) loose.push(...row.members);
      }
      const result = named.concat(this.offsetRows(loose, Math.max(4, ROW_LIMIT - named.length)));
      if (this.rowMode === "what") result.sort((a, b) => this.weight(b) - this.weight(a));
      return result;
    }

    // Rows with losses come first. The sort is stable: the other named rows stay in the order of
    // time, which makes a readable staircase, and the rest in that of the disk.
    weight(row) {
      return Math.max(...row.members.map((i) => {
        const fate = this.fate(i);
        return fate === "dropped" || fate === "torn" ? 2 : 0;
      }));
    }

    // Neighbouring offsets share a row; the widest gaps are where the disk is split.
    offsetRows(indices, limit) {
      if (!indices.length) return [];
      const { offset, length } = this.writes;
      const sorted = indices.slice().sort((a, b) => offset[a] - offset[b]);
      const gaps = [];
      let end = 0;
      sorted.forEach((i, at) => {
        if (at && offset[i] > end) gaps.push([offset[i] - end, at]);
        end = Math.max(end, offset[i] + length[i]);
      });
      gaps.sort((a, b) => b[0] - a[0]);
      const starts = new Set(gaps.slice(0, limit - 1).map((gap) => gap[1]));
      const rows = [];
      end = 0;
      sorted.forEach((i, at) => {
        if (!at || starts.has(at)) { rows.push({ from: offset[i], members: [] }); end = 0; }
        const row = rows[rows.length - 1];
        row.members.push(i);
        row.to = end = Math.max(end, offset[i] + length[i]);
      });
      for (const row of rows) {
        row.label = `${bytes(row.from)} +${bytes(row.to - row.from)}`;
        row.members.sort((a, b) => a - b);
      }
      return rows;
    }

    // ---- drawing ---------------------------------------------------------------------------
    draw() {
      const width = this.plot.clientWidth;
      if (!width) return;
      const gutter = width < 620 ? 0 : Math.min(270, Math.round(width * 0.25));
      const indices = this.visible();
      const rows = this.rows(indices);
      const rowHeight = gutter ? 21 : 34;
      const top = 70;
      const height = top + Math.max(4, rows.length) * rowHeight + 26;
      this.geometry = { width, gutter, top, rowHeight, height, inner: width - gutter - 14 };
      this.plot.replaceChildren();
      this.plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.plot.style.height = height + "px";
      this.definePatterns();
      this.drawRows(rows);
      this.drawAxis();
      this.drawFlushes();
      this.drawMarks();
      if (indices.length > DETAIL_LIMIT) this.drawBins(rows); else this.drawWrites(rows);
      this.drawCrash();
      this.drawOverview();
      this.figure.dataset.drawnWrites = String(indices.length);
      this.figure.dataset.drawnRows = String(rows.length);
      this.figure.dataset.binned = String(indices.length > DETAIL_LIMIT);
      this.figure.querySelector(".window-words").textContent =
        `events ${Math.round(this.view[0]).toLocaleString("en")}–${Math.round(this.view[1]).toLocaleString("en")}` +
        ` of ${this.data.end.toLocaleString("en")}, ${count(indices.length, "write")}`;
    }

    x(position) {
      const [from, to] = this.view;
      return this.geometry.gutter + ((position - from) / (to - from)) * this.geometry.inner;
    }

    position(pixel) {
      const [from, to] = this.view;
      return from + ((pixel - this.geometry.gutter) / this.geometry.inner) * (to - from);
    }

    definePatterns() {
      const definitions = make(this.plot, "defs", {});
      const id = this.figure.dataset.source;
      const clip = make(definitions, "clipPath", { id: `${id}-clip` });
      const { gutter, height, inner } = this.geometry;
      make(clip, "rect", { x: gutter, y: 0, width: inner + 14, height });
      const pattern = make(definitions, "pattern", {
        id: `${id}-torn`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)",
      });
      make(pattern, "rect", { class: "torn-stripe", width: 3, height: 6 });
      this.area = make(this.plot, "g", { "clip-path": `url(#${id}-clip)` });
    }

    drawRows(rows) {
      const { top, rowHeight, width, gutter } = this.geometry;
      rows.forEach((row, at) => {
        row.y = top + at * rowHeight;
        if (at % 2 === 0) {
          const stripe = make(this.plot, "rect", { class: "stripe", x: 0, y: row.y, width, height: rowHeight });
          this.plot.insertBefore(stripe, this.area);
        }
        const bad = row.members.some((i) => this.fate(i) === "dropped" || this.fate(i) === "torn");
        const room = Math.floor(((gutter || width - 20) - 14) / 7.05);
        const label = make(this.plot, "text", {
          class: "row-label" + (bad ? " bad" : ""), x: 6, y: row.y + (gutter ? rowHeight / 2 + 4 : 12),
        }, shorten(row.label, room));
        make(label, "title", {}, row.label);
      });
    }

    drawAxis() {
      const { height, inner, width } = this.geometry;
      const [from, to] = this.view;
      const step = niceStep((to - from) / Math.max(2, inner / 90));
      for (let position = Math.ceil(from / step) * step; position <= to; position += step) {
        const x = this.x(position);
        make(this.area, "line", { class: "grid", x1: x, x2: x, y1: height - 26, y2: height - 20 });
        if (x < width - 24) {
          make(this.area, "text", { x, y: height - 7, "text-anchor": "middle" }, position.toLocaleString("en"));
        }
      }
    }

    drawFlushes() {
      const { height } = this.geometry;
      const { number, submit, complete, error } = this.data.flushes;
      let free = -Infinity;
      for (let i = 0; i < number.length; i += 1) {
        const end = complete[i] < 0 ? submit[i] + 1 : complete[i];
        if (end < this.view[0] || submit[i] > this.view[1]) continue;
        const x = this.x(submit[i]);
        const width = Math.max(2, this.x(end) - x);
        const group = make(this.area, "g", { "data-flush": i });
        if (!error[i]) make(group, "rect", { class: "flush-band", x, y: 51, width, height: height - 77 });
        make(group, "rect", { class: "flush-bar" + (error[i] ? " failed" : ""), x, y: 51, width, height: 11, rx: 2 });
        const label = `flush ${number[i]}`;
        const room = label.length * 6.7;
        if (x > free) {
          make(group, "text", { x, y: 47 }, label);
          free = x + room + 8;
        }
      }
    }

    drawMarks() {
      const { height } = this.geometry;
      const { position, text, kind } = this.data.marks;
      const shown = [];
      for (let i = 0; i < position.length; i += 1) {
        if (position[i] >= this.view[0] && position[i] <= this.view[1]) shown.push(i);
      }
      shown.forEach((i, at) => {
        const x = this.x(position[i] + 0.5);
        const next = at + 1 < shown.length ? this.x(position[shown[at + 1]] + 0.5) : this.geometry.width;
        const group = make(this.area, "g", { class: `mark mark-${kind[i]}`, "data-mark": i });
        make(group, "line", { class: "mark-line", x1: x, x2: x, y1: 27, y2: height - 26 });
        make(group, "path", { class: "mark-flag", d: `M${x} 19 l5 5 l-5 5 l-5 -5 z` });
        const room = Math.floor((next - x - 16) / 6.7);
        if (room > 5) make(group, "text", { class: "mark-text", x: x + 9, y: 28 }, shorten(text[i], Math.min(room, 46)));
        make(group, "rect", { class: "hit", x: x - 7, y: 16, width: 14, height: 18 });
      });
    }

    drawWrites(rows) {
      const { rowHeight, gutter } = this.geometry;
      const { submit, complete, number } = this.writes;
      for (const row of rows) {
        const y = row.y + (gutter ? rowHeight / 2 : rowHeight - 10);
        for (const i of row.members) {
          const fate = this.fate(i);
          const group = make(this.area, "g", {
            class: `write fate-${fate}` + (i === this.selected ? " selected" : ""),
            "data-index": i, "data-write": number[i],
          });
          const left = this.x(submit[i]);
          const done = complete[i] < 0 ? this.data.cut : complete[i];
          const right = Math.max(left + 5, this.x(fate === "late" ? done : Math.min(done, this.data.cut)));
          const end = this.x(this.lastPosition(i));
          make(group, "rect", { class: "hit", x: left - 3, y: y - 10, width: Math.max(right, end) - left + 6, height: 20 });
          if (end > right) make(group, "path", { class: "risk", d: `M${right} ${y}H${end}` });
          const body = make(group, "rect", { class: "body", x: left, y: y - 5, width: right - left, height: 10, rx: 2 });
          if (fate === "torn") body.style.fill = `url(#${this.figure.dataset.source}-torn)`;
          if (fate === "durable") make(group, "path", { class: "tick", d: `M${end} ${y - 5}V${y + 5}` });
          if (fate === "dropped" || fate === "torn") {
            make(group, "path", { class: "cross", d: `M${end - 10} ${y - 5}l8 10m0 -10l-8 10` });
          }
        }
      }
    }

    drawBins(rows) {
      const { rowHeight, gutter } = this.geometry;
      for (const row of rows) {
        const bins = new Map();
        for (const i of row.members) {
          const column = Math.floor(this.x(this.writes.submit[i]) / BIN_PIXELS);
          if (column * BIN_PIXELS < gutter - BIN_PIXELS) continue;
          const bin = bins.get(column) || { worst: 0, counts: [0, 0, 0, 0, 0] };
          const rank = FATES.indexOf(this.fate(i));
          bin.worst = Math.max(bin.worst, rank);
          bin.counts[rank] += 1;
          bins.set(column, bin);
        }
        for (const [column, bin] of bins) {
          const total = bin.counts.reduce((sum, value) => sum + value, 0);
          const tall = bin.worst >= 3 ? rowHeight - 2 : Math.min(rowHeight - 4, 4 + 3 * Math.log2(total));
          const middle = row.y + (gutter ? rowHeight / 2 : rowHeight - 10);
          make(this.area, "rect", {
            class: `bin fate-${FATES[bin.worst]}`, x: column * BIN_PIXELS, y: middle - tall / 2,
            width: bin.worst >= 3 ? BIN_PIXELS : BIN_PIXELS - 1, height: tall, "data-bin": bin.counts.join(","),
          });
        }
      }
    }

    drawCrash() {
      const { height, width } = this.geometry;
      const x = this.x(this.data.cut);
      if (x > width) return;
      make(this.area, "rect", { class: "never", x, y: 18, width: Math.max(0, width - x), height: height - 44 });
      make(this.area, "line", { class: "crash-line", x1: x, x2: x, y1: 0, y2: height - 26, "data-cut": this.data.cut });
      const words = `power cut before event ${this.data.cut.toLocaleString("en")}`;
      const room = words.length * 7.3 + 10;
      const before = x - this.geometry.gutter > room;
      const labelX = before ? x - room : x + 5;
      make(this.area, "rect", { class: "halo", x: labelX - 2, y: 0, width: room - 2, height: 16 });
      make(this.area, "text", { class: "crash-text", x: labelX + 2, y: 12 }, words);
      if (before && width - x > 130) make(this.area, "text", { x: x + 8, y: 12 }, "what never happened");
    }

    drawOverview() {
      const overview = this.overview;
      const width = overview.clientWidth;
      const height = 54;
      overview.replaceChildren();
      overview.setAttribute("viewBox", `0 0 ${width} ${height}`);
      overview.style.height = height + "px";
      const scale = width / this.data.end;
      const { step, columns } = this.data.overview;
      const most = Math.max(1, ...columns.map((column) => column.reduce((sum, value) => sum + value, 0)));
      columns.forEach((column, at) => {
        let y = height - 2;
        const total = column.reduce((sum, value) => sum + value, 0);
        if (!total) return;
        const tall = 8 + (height - 18) * Math.sqrt(total / most);
        FATES.forEach((fate) => {
          const part = column[this.data.fates.indexOf(fate)];
          if (!part) return;
          const share = Math.max(fate === "dropped" || fate === "torn" ? 5 : 1, (tall * part) / total);
          y -= share;
          make(overview, "rect", {
            class: `bin fate-${fate}`, x: at * step * scale, y, width: Math.max(1, step * scale - 0.5), height: share,
          });
        });
      });
      const cut = this.data.cut * scale;
      make(overview, "line", { class: "crash-line", x1: cut, x2: cut, y1: 0, y2: height });
      const left = this.view[0] * scale;
      const shown = Math.max(6, (this.view[1] - this.view[0]) * scale);
      make(overview, "rect", { class: "window", x: left, y: 0, width: shown, height });
      make(overview, "rect", { class: "window-edge", x: left + 1, y: 1, width: shown - 2, height: height - 2, rx: 4 });
    }

    // ---- moving about ----------------------------------------------------------------------
    show(from, to) {
      const span = Math.min(Math.max(8, to - from), this.data.end);
      const start = Math.min(Math.max(0, from), this.data.end - span);
      this.view = [start, start + span];
      this.draw();
    }

    zoom(factor, around) {
      const [from, to] = this.view;
      const at = [around, this.writes.submit[this.selected], this.data.cut, (from + to) / 2]
        .find((position) => position >= from && position <= to);
      this.show(at - (at - from) * factor, at + (to - at) * factor);
    }

    pan(share) {
      const [from, to] = this.view;
      this.show(from + (to - from) * share, to + (to - from) * share);
    }

    select(i) {
      this.selected = i;
      this.detail.replaceChildren();
      if (i < 0) { this.draw(); return; }
      const [title, ...lines] = this.describe(i);
      this.fill(this.detail, title, lines);
      const position = this.writes.submit[i];
      if (position < this.view[0] || position >= this.view[1]) {
        const half = (this.view[1] - this.view[0]) / 2;
        this.show(position - half, position + half);
      } else {
        this.draw();
      }
    }

    selectNumber(number) {
      const i = this.writes.number.indexOf(number);
      if (i >= 0) this.select(i);
    }

    step(direction) {
      const cut = lowerBound(this.writes.submit, this.data.cut);
      const next = this.selected < 0 ? cut - 1 : this.selected + direction;
      if (next >= 0 && next < this.size) this.select(next);
    }

    describe(i) {
      const { number, offset, length, submit, complete, durable, operation, fua, error, kept, before } = this.writes;
      const lines = [
        `${OPERATIONS[operation[i]]} ${number[i].toLocaleString("en")}${fua[i] ? " (FUA)" : ""}: ` +
          `${bytes(length[i])} at ${bytes(offset[i])} (byte ${offset[i].toLocaleString("en")})`,
        FATE_WORDS[this.fate(i)],
        `${milliseconds(before[i])} the power cut: submitted at event ${submit[i].toLocaleString("en")}, ` +
          (complete[i] < 0 ? "never answered" : `answered at ${complete[i].toLocaleString("en")}`) +
          (durable[i] < 0 ? ", nothing made it durable"
            : `, ${durable[i] < this.data.cut ? "durable" : "would have been durable"} from event ` +
              durable[i].toLocaleString("en")),
      ];
      if (error[i]) lines.push(`failed with errno ${error[i]}`);
      if (kept[i]) lines.push(`units that reached the disk: ${kept[i]}`);
      if (this.writes.needed[i]) lines.push("restored alone, it makes the violation go away");
      return [this.title(i), ...lines];
    }

    fill(target, title, lines) {
      const strong = document.createElement("strong");
      strong.textContent = title;
      target.replaceChildren(strong);
      for (const line of lines) {
        const part = document.createElement("div");
        part.textContent = line;
        target.append(part);
      }
    }

    wordsFor(element) {
      const write = element.closest(".write");
      if (write) return this.describe(Number(write.dataset.index));
      const mark = element.closest("[data-mark]");
      if (mark) {
        const i = Number(mark.dataset.mark);
        const when = this.data.marks.position[i] < this.data.cut ? "before" : "after";
        return [`${this.data.marks.kind[i]}, ${when} the power cut`, this.data.marks.text[i]];
      }
      const flush = element.closest("[data-flush]");
      if (flush) {
        const i = Number(flush.dataset.flush);
        const { number, submit, complete, error } = this.data.flushes;
        return [`flush ${number[i]}`, error[i] ? `failed with errno ${error[i]}: it promises nothing`
          : complete[i] < 0 || complete[i] >= this.data.cut ? "not answered before the crash: it promises nothing"
            : `makes every write durable that was answered before event ${submit[i]}`];
      }
      const bin = element.closest("[data-bin]");
      if (!bin) return null;
      const counts = bin.dataset.bin.split(",").map(Number);
      return [count(counts.reduce((sum, value) => sum + value, 0), "write"),
        ...FATES.map((fate, rank) => [fate, counts[rank]]).filter((pair) => pair[1])
          .map(([fate, number]) => `${number.toLocaleString("en")} ${fate === "late" ? "after the crash" : fate}`)];
    }

    hover(event) {
      const words = event.target.closest ? this.wordsFor(event.target) : null;
      this.tip.hidden = !words;
      if (!words) return;
      this.fill(this.tip, words[0], words.slice(1));
      const box = this.figure.getBoundingClientRect();
      const left = Math.min(event.clientX - box.left + 14, box.width - this.tip.offsetWidth - 4);
      this.tip.style.left = Math.max(0, left) + "px";
      const below = event.clientY - box.top + 18;
      this.tip.style.top = below + "px";
    }

    listen() {
      const actions = {
        in: () => this.zoom(0.5), out: () => this.zoom(2), focus: () => this.show(...this.data.focus),
        all: () => this.show(0, this.data.end), left: () => this.pan(-0.5), right: () => this.pan(0.5),
      };
      for (const button of this.figure.querySelectorAll("button[data-action]")) {
        button.addEventListener("click", () => actions[button.dataset.action]());
      }
      for (const button of this.figure.querySelectorAll("button[data-rows]")) {
        button.disabled = button.dataset.rows === "what" && !this.named;
        const press = () => {
          for (const other of this.figure.querySelectorAll("button[data-rows]")) {
            other.setAttribute("aria-pressed", String(other.dataset.rows === this.rowMode));
          }
        };
        button.addEventListener("click", () => { this.rowMode = button.dataset.rows; press(); this.draw(); });
        press();
      }
      this.plot.addEventListener("keydown", (event) => {
        const keys = {
          ArrowLeft: event.shiftKey ? () => this.pan(-0.25) : () => this.step(-1),
          ArrowRight: event.shiftKey ? () => this.pan(0.25) : () => this.step(1),
          "+": actions.in, "=": actions.in, "-": actions.out, 0: actions.focus, a: actions.all,
          Escape: () => this.select(-1),
        };
        if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
        event.preventDefault();
        keys[event.key]();
      });
      this.plot.addEventListener("pointermove", (event) => this.hover(event));
      this.plot.addEventListener("pointerleave", () => { this.tip.hidden = true; });
      this.plot.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return; // a plain wheel scrolls the page
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY / 300), this.position(this.pixel(event, this.plot)));
      }, { passive: false });
      this.plot.addEventListener("dblclick", (event) => this.zoom(0.5, this.position(this.pixel(event, this.plot))));
      this.listenToDrags();
    }

    pixel(event, element) { return event.clientX - element.getBoundingClientRect().left; }

    listenToDrags() {
      let grabbed = null;
      this.plot.addEventListener("pointerdown", (event) => {
        grabbed = { x: event.clientX, view: this.view.slice(), moved: false };
      });
      addEventListener("pointermove", (event) => {
        if (!grabbed || !event.buttons) return;
        const shift = event.clientX - grabbed.x;
        if (Math.abs(shift) > 4) grabbed.moved = true;
        if (!grabbed.moved) return;
        const events = (shift / this.geometry.inner) * (grabbed.view[1] - grabbed.view[0]);
        this.show(grabbed.view[0] - events, grabbed.view[1] - events);
      });
      addEventListener("pointerup", (event) => {
        if (grabbed && !grabbed.moved) {
          const write = event.target.closest && event.target.closest(".write");
          if (write && this.plot.contains(write)) this.select(Number(write.dataset.index));
        }
        grabbed = null;
      });
      // In the overview a drag chooses a window, a click moves the present one there.
      let start = null;
      const at = (event) => (this.pixel(event, this.overview) / this.overview.clientWidth) * this.data.end;
      this.overview.addEventListener("pointerdown", (event) => {
        this.overview.setPointerCapture(event.pointerId);
        start = at(event);
      });
      this.overview.addEventListener("pointermove", (event) => {
        if (start === null || Math.abs(at(event) - start) < this.data.end / 150) return;
        this.show(Math.min(start, at(event)), Math.max(start, at(event)));
      });
      this.overview.addEventListener("pointerup", (event) => {
        if (start !== null && Math.abs(at(event) - start) < this.data.end / 150) {
          const half = (this.view[1] - this.view[0]) / 2;
          this.show(start - half, start + half);
        }
        start = null;
      });
    }
  }

  for (const figure of document.querySelectorAll(".timeline")) {
    const timeline = new Timeline(figure);
    const section = figure.closest(".finding");
    for (const row of section.querySelectorAll("tr[data-write]")) {
      row.addEventListener("click", () => {
        timeline.selectNumber(Number(row.dataset.write));
        timeline.plot.scrollIntoView({ block: "nearest" });
      });
    }
  }

  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent);
      button.textContent = "Copied";
    });
  }
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
  document.documentElement.dataset.ready = "true";
})();
