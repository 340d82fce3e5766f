(() => {
  "use strict";
  const one = (id) => document.getElementById(id);
  const steps = [...document.querySelectorAll("details.step")];
  const filter = one("filter"), told = one("told"), all = one("all"), help = one("help"), single = one("single");
  let here = -1, texts = null, waiting = 0, went = 0;

  const shown = (index) => index >= 0 && index < steps.length && !steps[index].hidden;
  const choose = (index) => {
    if (here >= 0) steps[here].classList.remove("here");
    here = index;
    if (here >= 0) steps[here].classList.add("here");
  };
  const stand = (index) => {
    choose(index);
    const step = steps[index];
    const summary = step.querySelector("summary");
    summary.focus({ preventScroll: true });
    step.scrollIntoView({ block: "start" });
    const top = document.querySelector(".tools").getBoundingClientRect().bottom + 8;
    const gap = summary.getBoundingClientRect().top - top;
    if (gap < 0) window.scrollBy(0, gap);
  };
  const first = () => {
    const middle = steps.findIndex((step) => !step.hidden && step.getBoundingClientRect().bottom > 140);
    return middle < 0 ? steps.length - 1 : middle;
  };
  const move = (by) => {
    let index = here < 0 ? (by > 0 ? -1 : steps.length) : here;
    do index += by; while (index >= 0 && index < steps.length && !shown(index));
    if (shown(index)) stand(index);
  };
  const fold = () => {
    if (here < 0) { if (steps.length) stand(first()); return; }
    steps[here].open = !steps[here].open;
  };
  const openAll = (open) => {
    for (const step of steps) if (!step.hidden) step.open = open;
    all.setAttribute("aria-pressed", String(open));
    all.textContent = open ? "Fold all" : "Open all";
  };
  const toggleAll = () => openAll(steps.some((step) => !step.hidden && !step.open));
  const search = () => {
    const wanted = filter.value.trim().toLowerCase();
    if (wanted && !texts) texts = steps.map((step) => step.textContent.toLowerCase());
    let count = 0;
    steps.forEach((step, index) => {
      const hit = !wanted || texts[index].includes(wanted);
      step.hidden = !hit;
      count += hit;
    });
    told.textContent = wanted ? `${count} of ${steps.length} steps` : "";
  };
  const reveal = () => {
    let name = "";
    try { name = decodeURIComponent(location.hash.slice(1)); } catch { return; }
    const target = name && one(name);
    if (!target) return;
    for (let node = target.parentElement; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    const step = target.closest("details.step");
    if (step) {
      if (step.hidden) { filter.value = ""; search(); }
      stand(steps.indexOf(step));
    } else target.scrollIntoView();
  };
  const go = (id) => { if (one(id)) { location.hash = id; one(id).scrollIntoView(); } };
  const places = { s: "solution", f: "findings", c: "scores", t: "run" };

  document.addEventListener("keydown", (event) => {
    const at = event.target;
    if (at === filter) {
      if (event.key === "Escape") { filter.value = ""; search(); filter.blur(); }
      if (event.key === "Enter") { event.preventDefault(); choose(-1); move(1); }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || help.open || !single.checked) return;
    const key = event.key;
    if (went && Date.now() - went < 1500) {
      went = 0;
      if (key === "t") { event.preventDefault(); window.scrollTo(0, 0); return; }
      if (places[key]) { event.preventDefault(); go(places[key]); return; }
    }
    if (key === "Enter" && at !== document.body) return;
    const done = {
      j: () => move(1), k: () => move(-1), o: fold, Enter: fold, e: toggleAll, "/": () => filter.focus(),
      g: () => { went = Date.now(); }, "?": () => help.showModal(),
    }[key];
    if (done) { event.preventDefault(); done(); }
  });
  for (const [index, step] of steps.entries()) {
    step.firstElementChild.addEventListener("click", () => choose(index));
  }
  filter.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, texts ? 60 : 200); });
  all.addEventListener("click", toggleAll);
  one("asks").addEventListener("click", () => help.showModal());
  window.addEventListener("hashchange", reveal);
  let printed = [];
  window.addEventListener("beforeprint", () => {
    printed = [...document.querySelectorAll("details:not([open])")];
    for (const node of printed) node.open = true;
  });
  window.addEventListener("afterprint", () => { for (const node of printed) node.open = false; });
  document.querySelector(".tools").hidden = false;
  all.textContent = steps.length && steps.every((step) => step.open) ? "Fold all" : "Open all";
  reveal();
})();
