/* The moving figures: in each <div class="wave-stage" data-wave="ring"> sliders, drawings and numbers replace its
   still (still.js).

   Here: which figures there are. A figure is a file of its own in figures/; one with data-load="NAME" waits for
   the data of that name until its reader comes near. */

import circle from "./figures/circle.js";
import continuous from "./figures/continuous.js";
import grow from "./figures/grow.js";
import photo from "./figures/photo.js";
import picture from "./figures/picture.js";
import ring from "./figures/ring.js";
import speeds from "./figures/speeds.js";
import walk from "./figures/walk.js";
import { loadData, whenNear } from "./load.js";
import { Stage } from "./stage.js";

const figures = {
  circle,
  continuous,
  grow,
  photo,
  picture,
  ring,
  speeds,
  walk,
};

document.querySelectorAll(".wave-stage").forEach((root) => {
  const draw = figures[root.dataset.wave];
  const name = root.dataset.load;
  if (!name) draw(new Stage(root));
  else whenNear(root.closest("figure"), () => loadData(name).then((data) => draw(new Stage(root), data)));
});
