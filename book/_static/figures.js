// What needs a script: copy a command, open the code of a figure, move what is too wide.
// Without this file the links lead to the same things. Nothing is fetched: all of it lies in the page. And paper is
// light, whatever the screen is.

const serveFigures = () => {
  // Commands get a button that copies them, after the text that it copies.
  for (const code of document.querySelectorAll(".figure-command code, .page-stamp code")) {
    const button = document.createElement("button");
    const figure = code.closest("figure")?.querySelector(".caption-number")?.textContent.trim();
    const name = figure ? `Copy the command of ${figure.replace(/^Fig\./, "figure")}` : "Copy the command";
    Object.assign(button, { type: "button", className: "copy-command", textContent: "Copy" });
    button.setAttribute("aria-label", name);
    button.addEventListener("click", async () => {
      const done = await copy(code);
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      button.setAttribute("aria-label", done ? "Copied" : "The command is selected: press Ctrl+C");
      setTimeout(() => {
        button.textContent = "Copy";
        button.setAttribute("aria-label", name);
      }, 2500);
    });
    code.after(button);
  }

  // On a narrow page a picture, a table or a formula that is wider can be moved sideways, also by keyboard.
  const kinds = { "figure-frame": "Figure", "pst-scrollable-table-container": "Table", math: "Formula" };
  const frames = [...document.querySelectorAll(".figure-frame, .pst-scrollable-table-container, div.math")];
  const narrow = matchMedia("(max-width: 600px)");
  const fade = (frame) => {
    frame.classList.toggle("more", frame.scrollLeft + frame.clientWidth < frame.scrollWidth - 2);
  };
  const reach = () => {
    const wide = narrow.matches ? frames.filter((frame) => frame.scrollWidth > frame.clientWidth + 1) : [];
    for (const frame of frames) {
      if (wide.includes(frame)) continue;
      frame.classList.remove("more");
      if (frame.dataset.moves) for (const name of ["tabindex", "role", "aria-label", "data-moves"]) frame.removeAttribute(name);
    }
    for (const frame of wide) {
      fade(frame);
      if (frame.dataset.moves) continue;
      const kind = kinds[Object.keys(kinds).find((name) => frame.classList.contains(name))];
      const number = frame.closest("figure, table")?.querySelector(".caption-number") ?? frame.querySelector(".eqno, .caption-number");
      const label = number?.textContent.replace("#", "").trim();
      frame.dataset.moves = "sideways";
      frame.tabIndex = 0;
      frame.setAttribute("role", "group");
      frame.setAttribute("aria-label", `${label ? `${kind === "Formula" ? "Formula " : ""}${label}` : kind}, scrolls sideways`);
    }
  };
  reach();
  for (const frame of frames) frame.addEventListener("scroll", () => narrow.matches && fade(frame), { passive: true });
  addEventListener("load", reach);
  addEventListener("resize", reach);
  addEventListener("formulas-drawn", reach);
};

// True if the text is in the clipboard; otherwise it is selected, for the reader to copy.
const copy = async (code) => {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(code);
    return document.execCommand("copy");
  }
};

const page = document.documentElement;
let onScreen;
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll(".claim-details:not([open])")];
  for (const details of folded) details.open = true;
  onScreen = page.dataset.theme;
  page.dataset.theme = "light";
});
addEventListener("afterprint", () => {
  page.dataset.theme = onScreen;
  for (const details of folded) details.open = false;
});

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", serveFigures);
else serveFigures();
