(() => {
  "use strict";
  document.documentElement.classList.add("js");
  const one = (id) => document.getElementById(id);
  const words = (text) => text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const compare = (number, down) => (a, b) => number
    ? (a === "") - (b === "") || (down ? -1 : 1) * (Number(a) - Number(b))
    : (down ? -1 : 1) * (a < b ? -1 : a > b ? 1 : 0);
  const later = (work) => { let waiting = 0; return () => { clearTimeout(waiting); waiting = setTimeout(work, 80); }; };
  const sorted = (heads, column, down) => heads.forEach((head, index) => {
    if (index === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });

  // A table whose rows are all on the page: the headings sort, and a field filters.
  for (const table of document.querySelectorAll("table.sorts")) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells], rows = [...body.rows];
    const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
    heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
      const number = head.dataset.as === "number";
      const down = head.hasAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : head.dataset.first === "down";
      const keys = new Map(rows.map((row) => [row, value(row, column)])), order = compare(number, down);
      rows.sort((a, b) => order(keys.get(a), keys.get(b)));
      body.append(...rows);
      sorted(heads, column, down);
      table.classList.add("resorted");
    }));
    const filter = one(table.dataset.filter || ""), told = one(`${table.dataset.filter}-told`);
    if (!filter) continue;
    const search = () => {
      const wanted = words(filter.value);
      let count = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !wanted.every((word) => text.includes(word));
        count += !row.hidden;
      }
      told.textContent = wanted.length ? `${count} of ${rows.length}` : "";
    };
    filter.addEventListener("input", later(search));
    filter.addEventListener("keydown", (event) => { if (event.key === "Escape") { filter.value = ""; search(); } });
  }

  // Arrows move within the heatmap.
  one("heat")?.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const from = event.target.closest("td");
    if (!step || !from) return;
    const rows = from.closest("tbody").rows;
    let row = from.parentElement.sectionRowIndex, column = from.cellIndex;
    for (;;) {
      row += step[0]; column += step[1];
      const cell = rows[row]?.cells[column];
      if (!cell || column < 1) return;
      const link = cell.querySelector("a");
      if (link) { event.preventDefault(); link.focus(); return; }
    }
  });

  // The table of all runs comes from data/runs.js, a page of rows at a time.
  const runs = one("runs");
  window.kbhRuns = ({ heads: names, rows }) => {
    const PAGE = 50, body = runs.tBodies[0], heads = [...runs.tHead.rows[0].cells];
    const filter = one("filter"), told = one("filter-told"), picks = [...document.querySelectorAll("select[data-column]")];
    const at = (name) => names.indexOf(name);
    let page = 0, shown = rows, texts = null, order = null;
    const cell = (tag, text, type = "") => { const made = document.createElement(tag); made.textContent = text; made.className = type; return made; };
    const draw = () => {
      const last = Math.max(Math.ceil(shown.length / PAGE) - 1, 0);
      page = Math.min(Math.max(page, 0), last);
      body.replaceChildren(...shown.slice(page * PAGE, page * PAGE + PAGE).map((row) => {
        const made = document.createElement("tr"), link = document.createElement("a"), head = cell("th", "");
        head.scope = "row"; link.href = row[0]; link.textContent = row[at("model")]; link.title = row[at("model")]; head.append(link);
        const mark = cell("td", ""), sign = cell("span", row[at("sign")], `mark ${row[at("mark")]}`);
        sign.setAttribute("aria-hidden", "true"); mark.append(sign, ` ${row[at("mark")]}`);
        made.append(head, mark, cell("td", row[at("score")], "num"), cell("td", row[at("problem")]), cell("td", row[at("target")]),
          cell("td", row[at("trial")] || "", "num"), cell("td", row[at("verdict")]), cell("td", row[at("minutes")], "num"), cell("td", row[at("cost")], "num"), cell("td", row[at("began")]));
        return made;
      }));
      one("before").disabled = page === 0; one("after").disabled = page === last;
      one("pages").textContent = shown.length ? `${page * PAGE + 1} to ${Math.min(page * PAGE + PAGE, shown.length)} of ${shown.length}` : "none";
    };
    const search = () => {
      const wanted = words(filter.value), picked = picks.filter((pick) => pick.value).map((pick) => [at(pick.dataset.column), pick.value]);
      if (wanted.length && !texts) texts = new Map(rows.map((row) => [row, row.slice(1).join(" ").toLowerCase()]));
      shown = rows.filter((row) => picked.every(([column, text]) => String(row[column]) === text) && wanted.every((word) => texts.get(row).includes(word)));
      if (order) shown.sort(order);
      told.textContent = shown.length === rows.length ? "" : `${shown.length} of ${rows.length}`;
      page = 0; draw();
    };
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const number = head.dataset.as === "number", key = at(head.dataset.key), compared = (down) => compare(number, down);
      const down = head.hasAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : number && head.dataset.key !== "trial";
      const by = compared(down);
      order = (a, b) => by(a[key], b[key]);
      sorted(heads, column, down); search();
    }));
    filter.addEventListener("input", later(search));
    filter.addEventListener("keydown", (event) => { if (event.key === "Escape") { filter.value = ""; search(); } });
    picks.forEach((pick) => pick.addEventListener("change", search));
    one("before").addEventListener("click", () => { page -= 1; draw(); });
    one("after").addEventListener("click", () => { page += 1; draw(); });
    const asked = new URLSearchParams(location.hash.slice(1));
    for (const pick of picks) if (asked.has(pick.dataset.column)) pick.value = asked.get(pick.dataset.column);
    if (asked.has("q")) filter.value = asked.get("q");
    if (location.hash) search();
    one("before").disabled = true; one("after").disabled = rows.length <= PAGE;
  };

  // The page of one trial of many: its part lies compressed in one of a few files.
  const place = one("part");
  if (!place) return;
  const shards = Number(place.dataset.shards), open = new Map();
  window.kbhPart = async (number, packed) => {
    const bytes = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
    const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    open.set(number, new Map(JSON.parse(text)));
    show();
  };
  const say = (text) => { const made = document.createElement("p"); made.className = "note"; made.textContent = text; place.replaceChildren(made); };
  const show = () => {
    const name = location.hash.slice(1);
    if (name === "main") return;
    if (!/^[0-9a-f]{16}$/.test(name)) return say("No run is named: the table of runs leads here.");
    const number = parseInt(name.slice(0, 8), 16) % shards;
    if (!open.has(number)) {
      open.set(number, null);
      const script = document.createElement("script");
      script.src = `cells/${number}.js`;
      script.onerror = () => say("The file with this run is not there.");
      document.head.append(script);
      return;
    }
    const parts = open.get(number);
    if (!parts) return;
    if (!parts.has(name)) return say("There is no such run on this board.");
    const [title, html] = parts.get(name);
    document.title = title;
    place.innerHTML = html;  // made and escaped when the board was made
    window.scrollTo(0, 0);
  };
  window.addEventListener("hashchange", show);
  show();
})();
