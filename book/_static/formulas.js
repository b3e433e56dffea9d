// Draws the formulas in view first and all others once the page has loaded, a few at a time, so that a page
// can be read and used at once. `MathJax.startup.promise` still means: every formula is drawn. A short formula
// stays on one line with the punctuation after it.
(() => {
  if (!window.MathJax) return; // a page without mathematics
  const AT_A_TIME = 16;
  const loaded = () =>
    document.readyState === "complete" ||
    new Promise((resolve) => window.addEventListener("load", () => setTimeout(resolve), { once: true }));
  const inView = (element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return bottom > 0 && top < window.innerHeight;
  };

  // A browser may break a line between a formula and the comma after it. Short formulas keep theirs.
  function keepPunctuation() {
    for (const formula of document.querySelectorAll("span.math")) {
      const after = formula.nextSibling;
      const marks = after?.nodeType === Node.TEXT_NODE && after.data.match(/^[,.;:!?)\]’]+/);
      if (!marks || formula.textContent.length > 40) continue;
      const line = document.createElement("span");
      line.style.whiteSpace = "nowrap";
      after.splitText(marks[0].length);
      formula.replaceWith(line);
      line.append(formula, after);
    }
  }

  async function draw() {
    keepPunctuation();
    const formulas = [...document.querySelectorAll(".math, .output_area")];
    const first = formulas.filter(inView);
    const rest = formulas.filter((formula) => !first.includes(formula));
    await MathJax.typesetPromise(first);
    performance.mark("formulas in view drawn");
    window.dispatchEvent(new Event("formulas-drawn"));
    await loaded();
    while (rest.length > 0) {
      await MathJax.typesetPromise(rest.splice(0, AT_A_TIME));
      window.dispatchEvent(new Event("formulas-drawn"));
      await new Promise((resolve) => setTimeout(resolve));
    }
  }

  MathJax.startup = { typeset: false, pageReady: draw };
})();
