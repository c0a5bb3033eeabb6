"use strict";
(() => {
  const part = (name) => document.getElementById(`microscope-${name}`);
  const recordings = JSON.parse(part("data").textContent);
  const articles = new Map(recordings.map((each) => [each.id, document.getElementById(each.id)]));
  const variant = part("variant"), row = part("row"), columns = part("columns"), slider = part("step"), play = part("play");
  let shown = recordings[0], timer = 0;

  const rowsOf = (article) => article.querySelector("table.steps").tBodies[0].rows;
  const options = (select, values, chosen) => {
    select.replaceChildren(...values.map((value) => new Option(value, value, false, value === chosen)));
  };
  const distinct = (values) => [...new Set(values)];

  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "play";
    play.setAttribute("aria-pressed", "false");
  };

  const cell = ([column, value, exact, error, masked]) => {
    const item = document.createElement("li");
    const line = (text, name) => {
      const element = document.createElement("span");
      element.textContent = text;
      element.className = name;
      item.append(element);
    };
    line(masked ? "masked" : column === null ? "of the columns" : `column ${column}`, "soft");
    line(value, "value");
    if (!masked) {
      line(`exact ${exact}`, "soft");
      line(`${error} ULP`, "error");
      if (parseFloat(error) > 1 || error === "inf") item.className = "off";
    } else {
      item.className = "masked";
    }
    return item;
  };

  const draw = () => {
    const at = Number(slider.value) - 1, step = shown.steps[at];
    const rows = rowsOf(articles.get(shown.id));
    for (const other of rows) other.classList.toggle("current", other === rows[at]);
    const cells = rows[at].cells;
    part("at").textContent = `${at + 1} of ${shown.steps.length}`;
    part("phase").textContent = cells[1].textContent;
    part("words").textContent = cells[2].textContent;
    part("program").textContent = step.program;
    part("of-row").textContent = shown.row;
    part("range").textContent = step.columns === null ? "no column" : `columns ${step.columns[0]} to ${step.columns[1]}`;
    part("maximum").textContent = step.maximum;
    part("sum").textContent = step.sum;
    part("source").textContent = cells[8].title;
    part("place").textContent = cells[8].textContent;
    const ribbon = part("ribbon").style, [first, last] = step.columns ?? [0, -1];
    ribbon.left = `${(100 * first) / shown.columns}%`;
    ribbon.width = `${(100 * (last - first + 1)) / shown.columns}%`;
    part("lanes").replaceChildren(...step.lanes.map(cell));
    part("hidden").textContent = step.hidden > 0 ? `and ${step.hidden} more lanes` : "";
    part("previous").disabled = at === 0;
    part("next").disabled = at === shown.steps.length - 1;
    if (part("next").disabled) stop();
  };

  const choose = (recording) => {
    stop();
    shown = recording;
    const alike = recordings.filter((each) => each.variant === recording.variant);
    variant.value = recording.variant;
    options(row, distinct(alike.map((each) => String(each.row))), String(recording.row));
    options(columns, alike.filter((each) => each.row === recording.row).map((each) => String(each.columns)), String(recording.columns));
    part("block").textContent = recording.block;
    for (const [id, article] of articles) article.hidden = id !== recording.id;
    slider.max = recording.steps.length;
    slider.value = 1;
    draw();
  };
  const chosen = (...tests) => recordings.find((each) => tests.every((test) => test(each)));
  const ofVariant = (each) => each.variant === variant.value;
  const ofRow = (each) => String(each.row) === row.value;
  variant.addEventListener("change", () => choose(chosen(ofVariant)));
  row.addEventListener("change", () => choose(chosen(ofVariant, ofRow)));
  columns.addEventListener("change", () => choose(chosen(ofVariant, ofRow, (each) => String(each.columns) === columns.value)));

  const go = (to) => {
    slider.value = to;
    draw();
  };
  slider.addEventListener("input", () => { stop(); draw(); });
  part("previous").addEventListener("click", () => { stop(); go(Number(slider.value) - 1); });
  part("next").addEventListener("click", () => { stop(); go(Number(slider.value) + 1); });
  part("reset").addEventListener("click", () => { stop(); go(1); });
  part("random").addEventListener("click", () => {
    const others = recordings.filter((each) => each !== shown);
    if (others.length) choose(others[Math.floor(Math.random() * others.length)]);
  });
  part("random").disabled = recordings.length === 1;
  play.addEventListener("click", () => {
    if (timer) { stop(); return; }
    if (Number(slider.value) === shown.steps.length) go(1);
    play.textContent = "pause";
    play.setAttribute("aria-pressed", "true");
    timer = setInterval(() => go(Number(slider.value) + 1), 900);
  });
  document.getElementById("microscope").addEventListener("keydown", (event) => {
    if (event.target.matches("input, select")) return;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    stop();
    go(Number(slider.value) + by);
  });
  for (const [id, article] of articles) {
    article.querySelector("table.steps").addEventListener("click", (event) => {
      const clicked = event.target.closest("tbody tr");
      if (clicked && shown.id === id) { stop(); go([...rowsOf(article)].indexOf(clicked) + 1); }
    });
  }

  // A link to a recording shows it; paper shows all of them.
  const follow = () => {
    const found = recordings.find((each) => `#${each.id}` === location.hash);
    if (found) { choose(found); articles.get(found.id).scrollIntoView(); }
  };
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", () => { for (const article of articles.values()) article.hidden = false; });
  addEventListener("afterprint", () => { for (const [id, article] of articles) article.hidden = id !== shown.id; });
  choose(shown);
  follow();
})();
