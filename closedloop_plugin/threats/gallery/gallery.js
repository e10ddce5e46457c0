"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const list = byId("cards"), cards = [...list.children], filters = [...document.querySelectorAll("[data-filter]")];
  const text = byId("text"), failed = byId("failed"), sort = byId("sort"), words = new Map();
  const runs = failed ? [...failed.options].filter((o) => /^\d+$/.test(o.value)).length : 0;
  const textOf = (card) => {
    if (!words.has(card)) words.set(card, card.textContent.toLowerCase());
    return words.get(card);
  };
  const whoFailed = (card, choice) => {
    const who = card.dataset.failed.split(" ").filter(Boolean);
    if (choice === "none") return card.dataset.driven === "yes" && who.length === 0;
    if (choice === "all") return who.length === runs;
    if (choice === "some") return who.length > 0 && who.length < runs;
    return who.includes(choice);
  };
  const matches = (card) =>
    filters.every((f) => !f.value || card.dataset[f.dataset.filter] === f.value) &&
    (!failed || !failed.value || whoFailed(card, failed.value)) &&
    text.value.toLowerCase().split(/\s+/).every((word) => textOf(card).includes(word));
  const show = () => {
    let n = 0;
    for (const card of cards) {
      card.hidden = !matches(card);
      n += card.hidden ? 0 : 1;
    }
    byId("shown").textContent = n + " of " + cards.length;
    byId("empty").hidden = n > 0;
  };
  const order = () => {
    const choice = sort ? sort.value : "", run = parseInt(choice, 10), sign = choice.endsWith("-") ? -1 : 1;
    const score = (card) => parseFloat(card.dataset.scores.split(" ")[run]);
    const sorted = choice === "" ? cards : [...cards].sort((a, b) => {
      const x = score(a), y = score(b);
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return sign * (x - y);
    });
    list.append(...sorted);
  };
  for (const input of [text, failed, ...filters]) if (input) input.addEventListener("input", show);
  if (sort) sort.addEventListener("input", order);
  byId("reset").addEventListener("click", () => {
    for (const input of [text, failed, sort, ...filters]) if (input) input.value = "";
    show();
    order();
  });
  list.addEventListener("click", (event) => {
    const card = event.target.closest(".card");
    if (!card || event.target.closest("summary, .open, a") || String(window.getSelection())) return;
    const details = card.querySelector("details");
    details.open = !details.open;
  });
  byId("controls").hidden = false;
  show();
})();
