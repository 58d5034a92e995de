// Updates a part of the page to the server's version and changes only what differs: focus, open details, ticked boxes,
// selected text and scroll positions stay, as does the content of `data-kept` nodes. Nodes are matched by id; nodes
// without one by position, not counting white space: a part is indented in its page, but not on its own.
(() => {
  "use strict";
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
  const blank = (one) => one?.nodeType === Node.TEXT_NODE && !one.data.trim();
  // The server does not override what the user has opened or a script has closed.
  const theirs = (node, name) => (name === "open" && node.matches("details, dialog")) || (name === "checked" && node.matches("input"));

  const attributes = (old, now) => {
    for (const { name } of [...old.attributes]) {
      if (!now.hasAttribute(name) && !theirs(old, name)) old.removeAttribute(name);
    }
    for (const { name, value } of now.attributes) {
      if (old.getAttribute(name) !== value && !theirs(old, name)) old.setAttribute(name, value);
    }
  };

  const children = (old, now) => {
    const known = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
    let at = old.firstChild;
    for (const next of [...now.childNodes]) {
      if (blank(next) && !blank(at)) { old.insertBefore(next, at); continue; }
      while (blank(at) && !blank(next)) { const gone = at; at = at.nextSibling; gone.remove(); }
      const found = next.id ? known.get(next.id) : null;
      if (found && alike(found, next)) {
        if (found === at) at = at.nextSibling; else old.insertBefore(found, at);
        node(found, next);
      } else if (at && !next.id && alike(at, next)) {
        const here = at;
        at = at.nextSibling;
        node(here, next);
      } else {
        old.insertBefore(next, at);
      }
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };

  const node = (old, now) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== now.data) old.data = now.data;
      return;
    }
    if (old.isEqualNode(now) || "kept" in old.dataset) return;
    attributes(old, now);
    children(old, now);
  };

  // The equivalent in the new content: the link of a row, not the checkbox before it.
  const twin = (again, focused) => {
    if (again.matches("a, button, input, summary, [tabindex]")) return again;
    return [...again.querySelectorAll(focused.localName)].find((one) => one.isEqualNode(focused)) || again.querySelector("a, button, input");
  };
  // A row that moves keeps the focus; if it is gone, the heading gets it.
  const keepingFocus = (part, work) => {
    const focused = document.activeElement;
    const inside = focused && focused !== document.body && part.contains(focused);
    const id = inside ? focused.id || focused.closest("[id]")?.id : "";
    work();
    if (!inside || document.activeElement === focused) return;
    if (part.contains(focused)) { focused.focus({ preventScroll: true }); return; }
    const again = id && document.getElementById(id);
    (again && part.contains(again) && twin(again, focused) || heading()).focus({ preventScroll: true });
  };
  const heading = () => {
    const found = document.querySelector("main h1") || document.getElementById("main");
    found.setAttribute("tabindex", "-1");
    return found;
  };

  // A time of day is changed only where it differs in the reader's zone: it never flips to the server's and back.
  const local = (now) => { window.ringfence.localise?.(now); return now; };
  const morph = (part, now) => keepingFocus(part, () => children(part, local(now)));
  window.ringfence = { ...window.ringfence, morph, morphNode: (old, now) => keepingFocus(old.parentNode, () => node(old, local(now))), heading };

  htmx.defineExtension("morph", {
    isInlineSwap: (style) => style === "morph",
    handleSwap: (style, target, fragment) => {
      if (style !== "morph") return false;
      morph(target, fragment);
      return [...target.children];
    },
  });
})();
