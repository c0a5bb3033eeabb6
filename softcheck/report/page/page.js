"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("with-script");
  const say = (text) => { document.getElementById("said").textContent = text; };

  // Storage may be refused to a page that was opened from a file.
  const kept = (action) => { try { return action(localStorage); } catch { return null; } };
  const scheme = document.getElementById("scheme");
  const shown = () => root.dataset.scheme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const choose = (name) => {
    if (name === "light" || name === "dark") root.dataset.scheme = name;
    scheme.textContent = shown() === "dark" ? "light page" : "dark page";
  };
  choose(kept((storage) => storage.getItem("softcheck-scheme")));
  scheme.addEventListener("click", () => {
    choose(shown() === "dark" ? "light" : "dark");
    kept((storage) => storage.setItem("softcheck-scheme", shown()));
  });

  // A cell's figure: "≥ 1.6e+7" and "327,852" are numbers, a dash is less than any.
  const figure = (cell) => {
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = parseFloat(text.replace(/^[≥=]\s*/, "").replace(/,/g, ""));
    return Number.isNaN(number) ? (/^inf/.test(text) ? Infinity : -Infinity) : number;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    for (const head of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      while (head.firstChild && !(head.firstChild instanceof HTMLButtonElement)) button.append(head.firstChild);
      button.textContent = button.textContent.trim();
      head.prepend(button);
      button.after(" ");
      button.addEventListener("click", () => {
        const numeric = head.classList.contains("number");
        const order = numeric ? ["descending", "ascending"] : ["ascending", "descending"];
        const next = order[order.indexOf(head.getAttribute("aria-sort")) + 1];
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        const rows = [...original];
        if (next) {
          head.setAttribute("aria-sort", next);
          const sign = next === "ascending" ? 1 : -1;
          const cell = (row) => row.cells[head.cellIndex];
          rows.sort((a, b) => sign * (numeric
            ? Math.sign(figure(cell(a)) - figure(cell(b))) || 0
            : cell(a).textContent.trim().localeCompare(cell(b).textContent.trim())));
        }
        body.append(...rows);
        say(`sorted by ${button.textContent}${next ? `, ${next}` : ": the report's order"}`);
      });
    }
  }

  const filter = document.getElementById("filter");
  if (filter) {
    const rows = [...document.querySelectorAll("#figures-table tbody tr")];
    const choices = [...document.querySelectorAll("[data-filter]")];
    const apply = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const row of rows) {
        const text = `${row.cells[0].textContent} ${row.cells[row.cells.length - 1].textContent}`.toLowerCase();
        row.hidden = !(words.every((word) => text.includes(word)) &&
          choices.every((choice) => !choice.value || row.dataset[choice.dataset.filter] === choice.value));
        left += !row.hidden;
      }
      document.getElementById("shown").textContent = left === rows.length ? "" : `${left} of ${rows.length} rows`;
    };
    filter.addEventListener("input", apply);
    for (const choice of choices) choice.addEventListener("change", apply);
    filter.form.addEventListener("submit", (event) => event.preventDefault());
  }

  // The clipboard's newer interface is refused to some pages that were opened from a file.
  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); return true; } catch { /* go on with the older way */ }
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const done = await copy(button.dataset.copy);
    button.textContent = done ? "copied" : "select and copy it";
    say(button.textContent);
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  });

  // A meaning stands beside the word whose button opened it.
  document.addEventListener("toggle", (event) => {
    if (!(event.target instanceof HTMLElement) || !event.target.matches(".meaning") || event.newState !== "open") return;
    const button = document.querySelector(`[popovertarget="${event.target.id}"]`).getBoundingClientRect();
    const { style } = event.target;
    style.margin = "0";
    style.top = `${button.bottom + 6}px`;
    style.left = `${Math.max(8, Math.min(button.left, innerWidth - event.target.offsetWidth - 8))}px`;
  }, true);

  // A link into a folded part opens it.
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at instanceof HTMLDetailsElement) at.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();

  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) {
      part.dataset.wasOpen = part.open;
      part.open = true;
    }
  });
  addEventListener("afterprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = part.dataset.wasOpen === "true";
  });
})();
