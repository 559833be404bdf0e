"use strict";
// Draws the figures, and makes switches and tables work; drawing itself is all Vega's.
(() => {
  const content = JSON.parse(document.getElementById("figures").textContent);
  const views = new Map();
  const hidden = () => [...document.querySelectorAll(".switches input:not(:checked)")].map((box) => box.value);
  const ownScale = (figure) =>
    document.getElementById(figure.id).closest("section").querySelector(".scale input:checked")?.value === "own";
  const options = {
    renderer: "svg", config: content.config, tooltip: { theme: "custom" },
    actions: { export: true, source: false, compiled: false, editor: false },
  };

  const hasParameter = (figure, name) => figure.spec.params.some((each) => each.name === name);

  function setScale(figure, view) {
    if (!figure.limits) return;
    const [low, high] = ownScale(figure) ? figure.limits : figure.shared_limits;
    view.signal("low", low).signal("high", high);
  }

  async function draw(figure) {
    const place = document.getElementById(figure.id);
    const { view } = await vegaEmbed(place, figure.spec, { ...options, downloadFileName: figure.id });
    if (hasParameter(figure, "hidden")) view.signal("hidden", hidden());
    setScale(figure, view);
    await view.runAsync();
    views.set(figure, view);
  }

  const inClosed = (figure) => document.getElementById(figure.id).closest("details:not([open])");

  async function drawAll(figures) {
    for (const figure of figures) {
      if (!views.has(figure) && !inClosed(figure)) {
        await draw(figure);
        await new Promise((next) => setTimeout(next)); // lets the page scroll between figures
      }
    }
    document.documentElement.dataset.drawn = "true";
  }

  // A page of paper is narrower than a screen: figures are drawn again for it, so that their text is not made smaller.
  const onPaper = { wide: 640, half: 640, cell: 300 };
  function resize(width) {
    for (const [figure, view] of views) view.width(width(document.getElementById(figure.id))).run();
  }
  window.addEventListener("beforeprint", () => resize((place) => onPaper[place.closest("figure").className]));
  window.addEventListener("afterprint", () => resize((place) => place.clientWidth));

  const bar = document.querySelector(".switches");
  if (bar) { // what a link leads to is not covered by the switches, however many lines they take
    const covers = () => (getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0);
    new ResizeObserver(() => { document.documentElement.style.scrollPaddingTop = `${covers() + 12}px`; }).observe(bar);
  }

  for (const box of document.querySelectorAll(".switches input")) {
    box.addEventListener("change", () => {
      for (const [figure, view] of views) if (hasParameter(figure, "hidden")) view.signal("hidden", hidden()).runAsync();
      for (const each of document.querySelectorAll("figure[data-method]")) each.hidden = hidden().includes(each.dataset.method);
    });
  }
  for (const radio of document.querySelectorAll(".scale input")) {
    radio.addEventListener("change", () => {
      for (const [figure, view] of views) { setScale(figure, view); view.runAsync(); }
    });
  }
  for (const details of document.querySelectorAll("details")) {
    details.addEventListener("toggle", () => drawAll(content.figures));
  }

  const value = (cell) => {
    const text = cell.dataset.value ?? cell.textContent.trim().replace(/\u2212/g, "-").replace(/,/g, "");
    const number = parseFloat(text);
    return Number.isNaN(number) ? text.toLowerCase() : number;
  };
  const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);

  for (const button of document.querySelectorAll("thead button")) {
    button.addEventListener("click", () => {
      const head = button.parentElement, body = head.closest("table").tBodies[0], column = head.cellIndex;
      const first = head.classList.contains("word") ? "ascending" : "descending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      for (const each of head.parentElement.cells) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const rows = [...body.rows].map((row) => [value(row.cells[column]), row]);
      rows.sort(([a], [b]) => sign * compare(a, b));
      body.append(...rows.map(([, row]) => row));
    });
  }
  drawAll(content.figures);
})();
