// Draws the charts. The figures stand in a table on the page, so that nothing is lost without scripts.
"use strict";

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function columnsOf(table) {
  const rows = [...table.tBodies[0].rows];
  const read = (name) => rows.map((row) => {
    const value = row.dataset[name];
    return value === undefined || value === "" ? null : Number(value);
  });
  return { round: read("round"), own: read("own"), open: read("public"), classes: read("classes") };
}

const language = document.documentElement.lang;

function seriesOf(columns, words) {
  const known = [
    { key: "own", label: words.ownLabel, scale: "%", stroke: colour("--series-a"), width: 2 },
    { key: "open", label: words.publicLabel, scale: "%", stroke: colour("--series-b"), width: 2, dash: [6, 4] },
    { key: "classes", label: words.classesLabel, scale: "classes", stroke: colour("--series-c"), width: 2,
      paths: uPlot.paths.stepped({ align: 1 }) },
  ];
  const figure = new Intl.NumberFormat(language, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  const shades = { "%": (value) => (value === null ? "–" : `${figure.format(value)} %`), classes: (value) => value ?? "–" };
  return known.filter((item) => columns[item.key].some((value) => value !== null)).map((item) => ({
    ...item, spanGaps: true, points: { show: columns.round.length < 40, size: 6, fill: colour("--surface") },
    value: (_plot, value) => shades[item.scale](value),
  }));
}

function draw(figure) {
  const place = figure.querySelector(".chart");
  const columns = columnsOf(figure.querySelector("table"));
  const series = seriesOf(columns, figure.dataset);
  const axis = { stroke: colour("--muted"), font: "12px system-ui", grid: { stroke: colour("--grid"), width: 1 },
    ticks: { show: false } };
  const whole = (_plot, splits) => splits.map((value) => (Number.isInteger(value) ? value : ""));
  place.replaceChildren();
  // Without a pointer the legend says the last round's figures.
  const showLast = (plot) => plot.setLegend({ idx: columns.round.length - 1 });
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
    series: [{ label: figure.dataset.roundLabel }, ...series],
  }, [columns.round, ...series.map((item) => columns[item.key])], place);
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
