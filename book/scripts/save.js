/* Buttons that save the drawings of a stage, as they are seen, in one picture for slides: SVG or PNG.

   Here: the drawings with the styles of the page written into them. Not here: the drawings. */

import { each, element } from "./svg.js";

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size"];
const HEAD = 20; // pixels over a drawing
const SCALE = 3; // pixels of a PNG for one on the page

/** A drawing as text, each element with its style; elements of one class share it, but for what they say themselves. */
const styled = (svg) => {
  const copy = svg.cloneNode(true);
  const known = {};
  const originals = svg.querySelectorAll("[class]");
  copy.querySelectorAll("[class]").forEach((node, i) => {
    const kind = `${node.tagName} ${node.getAttribute("class")}`;
    known[kind] ||= getComputedStyle(originals[i]);
    STYLES.filter((name) => !node.hasAttribute(name)).forEach((name) =>
      node.setAttribute(name, known[kind].getPropertyValue(name)),
    );
    node.removeAttribute("class");
  });
  return copy.innerHTML;
};

/** All drawings of a stage with their heads, each where it stands. */
const together = (stage) => {
  const frame = stage.panelBox.getBoundingClientRect();
  const { color, fontFamily } = getComputedStyle(stage.root);
  const drawings = each(
    stage.panels.filter(({ svg }) => svg.clientWidth),
    ({ svg }) => {
      const { left, top, width, height } = svg.getBoundingClientRect();
      const head = `<text y="-6" font-size="13" fill="${color}">${svg.previousSibling.textContent}</text>`;
      const place = `transform="translate(${left - frame.left} ${top - frame.top + HEAD})"`;
      return `<g ${place}>${head}<svg width="${width}" height="${height}">${styled(svg)}</svg></g>`;
    },
  );
  const [width, height] = [frame.width, frame.height + HEAD].map(Math.ceil);
  const ground = `<rect width="100%" height="100%" fill="${getComputedStyle(document.body).backgroundColor}"/>`;
  const text = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family='${fontFamily.replaceAll('"', "").replaceAll("'", "")}'>${ground}${drawings}</svg>`;
  return { text, width, height };
};

const download = (href, name) => element("a", { href, download: name }).click();

/** Two buttons; the files are called `name`. */
export const saveButtons = (stage, name, place) => {
  const address = (text) => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  stage.button("save SVG", () => download(address(together(stage).text), `${name}.svg`), place);
  const png = async () => {
    const { text, width, height } = together(stage);
    const image = new Image(SCALE * width, SCALE * height);
    image.src = address(text);
    await image.decode();
    const canvas = element("canvas", { width: SCALE * width, height: SCALE * height });
    canvas.getContext("2d").drawImage(image, 0, 0, SCALE * width, SCALE * height);
    download(canvas.toDataURL(), `${name}.png`);
  };
  stage.button("save PNG", png, place);
};
