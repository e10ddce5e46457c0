// Drawing boxes with the mouse: dragging over the image adds a line to the list of boxes, Shift and click adds a point,
// and the list is saved. A plain click still toggles full size. Events are delegated, since the page replaces the
// elements of a record after each action.
(() => {
  const SMALLEST = 4; // screen pixels: a shorter drag is a click
  let drag = null, handled = false;

  const place = (img, event) => {
    // Screen to image pixels, clamped to the image; the browser may scale it.
    const shown = img.getBoundingClientRect();
    const along = (at, start, length, size) => Math.round(Math.min(Math.max((at - start) / length, 0), 1) * size);
    return [
      along(event.clientX, shown.left, shown.width, +img.dataset.width),
      along(event.clientY, shown.top, shown.height, +img.dataset.height),
    ];
  };

  const add = (line) => {
    const list = document.querySelector("#boxes textarea");
    const save = document.querySelector("#save-boxes");
    if (!list || !save) return;
    const before = list.value.trimEnd();
    list.value = before ? `${before}\n${line}` : line;
    list.dispatchEvent(new Event("input", { bubbles: true }));
    setTimeout(() => save.click(), 50); // after the page has processed the input
  };

  const band = (event) => {
    const left = Math.min(drag.x, event.clientX), top = Math.min(drag.y, event.clientY);
    Object.assign(drag.band.style, {
      left: `${left}px`, top: `${top}px`,
      width: `${Math.abs(event.clientX - drag.x)}px`, height: `${Math.abs(event.clientY - drag.y)}px`,
    });
  };

  const far = (event) => Math.max(Math.abs(event.clientX - drag.x), Math.abs(event.clientY - drag.y)) >= SMALLEST;

  const end = () => {
    drag?.band.remove();
    drag = null;
  };

  document.addEventListener("pointerdown", (event) => {
    handled = false;
    const img = event.target.closest?.(".picture img[data-width]");
    if (!img || event.button !== 0 || event.pointerType === "touch") return; // a finger scrolls
    drag = { img, x: event.clientX, y: event.clientY, from: place(img, event), band: document.createElement("div") };
    drag.band.className = "band";
    document.body.append(drag.band);
    event.preventDefault();
  });

  document.addEventListener("pointermove", (event) => drag && band(event));

  document.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const { img, from } = drag, to = place(img, event), drawn = far(event);
    end();
    if (!drawn && !event.shiftKey) return;
    handled = true;
    if (!drawn) return add(from.join(" "));
    const corners = [0, 1].map((axis) => [from[axis], to[axis]].sort((a, b) => a - b));
    if (corners.every(([low, high]) => low < high)) {
      add([corners[0][0], corners[1][0], corners[0][1], corners[1][1]].join(" "));
    }
  });

  // The click that follows a drag must not toggle full size.
  document.addEventListener("click", (event) => handled && event.preventDefault(), { capture: true });
  document.addEventListener("pointercancel", end);
  document.addEventListener("keydown", (event) => event.key === "Escape" && end());
  document.addEventListener("dragstart", (event) => event.target.closest?.(".picture") && event.preventDefault());
})();
