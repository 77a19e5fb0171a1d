"use strict";
(() => {
  const tools = document.querySelector(".tools");
  const articles = [...document.querySelectorAll(".finding")];
  const order = new Map(articles.map((article, number) => [article, number]));
  const texts = new Map();
  const text = (article) => {
    if (!texts.has(article)) texts.set(article, article.textContent.toLowerCase());
    return texts.get(article);
  };
  const by = {
    title: (a, b) => title(a).localeCompare(title(b)),
    hits: (a, b) => b.dataset.hits - a.dataset.hits,
    last: (a, b) => b.dataset.last.localeCompare(a.dataset.last),
  };
  const title = (article) => article.querySelector(".title").textContent;

  for (const name of ["symptom", "side"]) {
    const values = new Set(articles.map((article) => article.dataset[name]));
    tools.elements[name].append(...[...values].sort().map((value) => new Option(value, value)));
  }

  const choose = () => {
    const words = tools.elements.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = ["symptom", "side"].map((name) => [name, tools.elements[name].value]);
    let shown = 0;
    for (const article of articles) {
      const fits = chosen.every(([name, value]) => !value || article.dataset[name] === value);
      article.hidden = !(fits && words.every((word) => text(article).includes(word)));
      shown += !article.hidden;
    }
    const narrowed = words.length || chosen.some(([, value]) => value);
    tools.querySelector("output").textContent = narrowed ? `${shown} of ${articles.length}` : "";
    if (narrowed) for (const group of document.querySelectorAll(".group")) group.open = true;
  };

  const sort = () => {
    const compare = by[tools.elements.sort.value] ?? (() => 0);
    const sorted = [...articles].sort((a, b) => compare(a, b) || order.get(a) - order.get(b));
    for (const article of sorted) article.parentElement.append(article);
  };

  const copy = async (button) => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  };

  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    const own = target.querySelector("details");
    if (target.className === "finding" && own) own.open = true;
    target.scrollIntoView();
  };

  tools.hidden = !articles.length;
  tools.addEventListener("submit", (event) => event.preventDefault());
  tools.elements.search.addEventListener("input", choose);
  for (const name of ["symptom", "side"]) tools.elements[name].addEventListener("change", choose);
  tools.elements.sort.addEventListener("change", sort);
  for (const button of document.querySelectorAll(".copy")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
  addEventListener("hashchange", reveal);
  reveal();
})();
