// Draws the charts. The figures stand in a table on the page, so that nothing is lost without scripts.
"use strict";

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A line is of one strategy and one kind of recordings; others are lines of their own.
function linesOf(table) {
  const rows = [...table.tBodies[0].rows];
  const lines = { own: new Map(), public: new Map(), classes: new Map() };
  rows.forEach((row, place) => {
    for (const [key, known] of Object.entries(lines)) {
      if (!row.dataset[key]) continue;
      const label = row.dataset[`${key}Line`] ?? "classes";
      if (!known.has(label)) known.set(label, rows.map(() => null));
      known.get(label)[place] = Number(row.dataset[key]);
    }
  });
  return { rounds: rows.map((row) => Number(row.dataset.round)), lines };
}

const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
const number = new Intl.NumberFormat(document.documentElement.lang, digits);
const percent = (_plot, value) => (value === null ? "–" : `${number.format(value)} %`);

function seriesOf({ rounds, lines }) {
  const dashes = { own: [[], [2, 4], [14, 4, 2, 4]], public: [[6, 4], [3, 3], [14, 6]], classes: [[]] };
  const styles = {
    own: { scale: "%", stroke: colour("--series-a"), value: percent },
    public: { scale: "%", stroke: colour("--series-b"), value: percent },
    classes: { scale: "classes", stroke: colour("--series-c"), value: (_plot, value) => value ?? "–",
      paths: uPlot.paths.stepped({ align: 1 }) },
  };
  const points = { show: rounds.length < 40, size: 6, fill: colour("--surface") };
  return Object.entries(lines).flatMap(([key, known]) => [...known].map(([label, values], place) => ({
    ...styles[key], label, values, width: 2, spanGaps: true, dash: dashes[key][place % dashes[key].length],
    points: known.size > 1 ? { ...points, show: true } : points,
  })));
}

function draw(figure) {
  const place = figure.querySelector(".chart");
  const found = linesOf(figure.querySelector("table"));
  const series = seriesOf(found);
  const axis = { stroke: colour("--muted"), font: "12px system-ui", grid: { stroke: colour("--grid"), width: 1 },
    ticks: { show: false } };
  const whole = (_plot, splits) => splits.map((value) => (Number.isInteger(value) ? value : ""));
  place.replaceChildren();
  // Without a pointer the legend says the last round's figures.
  const showLast = (plot) => plot.setLegend({ idx: found.rounds.length - 1 });
  return new uPlot({
    width: place.clientWidth, height: 260, padding: [12, 0, 0, 0],
    hooks: { ready: [showLast], setCursor: [(plot) => { if (plot.cursor.idx == null) showLast(plot); }] },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { x: { time: false }, "%": { range: [0, 100] },
      classes: { range: (_plot, _low, high) => [0, Math.max(4, 2 * high)] } },
    axes: [
      { ...axis, values: whole, grid: { show: false } },
      { ...axis, scale: "%", values: (_plot, splits) => splits.map((value) => `${value} %`), size: 56 },
      { ...axis, stroke: colour("--series-c"), scale: "classes", side: 1, values: whole, grid: { show: false }, size: 44 },
    ],
    series: [{ label: "round" }, ...series.map(({ values, ...style }) => style)],
  }, [found.rounds, ...series.map((line) => line.values)], place);
}

for (const figure of document.querySelectorAll("figure[data-chart]")) {
  let plot = draw(figure);
  const place = figure.querySelector(".chart");
  new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: 260 })).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    plot.destroy();
    plot = draw(figure);
  });
}
