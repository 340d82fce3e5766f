(() => {
  "use strict";
  const one = (id) => document.getElementById(id);
  const body = one("runs").tBodies[0], heads = [...one("runs").tHead.rows[0].cells], rows = [...body.rows];
  const filter = one("filter"), kind = one("kind"), told = one("told");
  let texts = null, waiting = 0;

  const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  const sort = (column, down) => {
    const number = heads[column].dataset.as === "number";
    const keys = new Map(rows.map((row) => [row, value(row, column)]));
    const order = number
      ? (a, b) => (keys.get(a) === "") - (keys.get(b) === "") || (down ? -1 : 1) * (Number(keys.get(a)) - Number(keys.get(b)))
      : (a, b) => (down ? -1 : 1) * (keys.get(a) < keys.get(b) ? -1 : keys.get(a) > keys.get(b) ? 1 : 0);
    body.append(...[...rows].sort(order));
    heads.forEach((head, index) => {
      if (index === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => sort(column, head.getAttribute("aria-sort") === "ascending"));
  });

  const search = () => {
    const wanted = filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    if (wanted.length && !texts) texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    let count = 0;
    for (const row of rows) {
      const hit = (!kind.value || row.dataset.kind === kind.value) && wanted.every((word) => texts.get(row).includes(word));
      row.hidden = !hit;
      count += hit;
    }
    told.textContent = wanted.length || kind.value ? `${count} of ${rows.length} runs` : "";
  };
  filter.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 80); });
  filter.addEventListener("keydown", (event) => { if (event.key === "Escape") { filter.value = ""; search(); } });
  kind.addEventListener("change", search);
  one("tools").addEventListener("submit", (event) => { event.preventDefault(); search(); });
  one("tools").hidden = false;
})();
