// What scrolls sideways can be reached and moved with the keyboard; each copy button's bar has a name of its own.
document$.subscribe(() => {
  const mark = () => {
    for (const region of document.querySelectorAll("pre > code, .md-typeset__scrollwrap"))
      if (region.scrollWidth > region.clientWidth) region.tabIndex = 0;
    document.querySelectorAll(".md-code__nav").forEach((bar, place) => bar.setAttribute("aria-label", `Code ${place + 1}`));
  };
  mark();
  new MutationObserver(mark).observe(document.body, { childList: true, subtree: true });
  addEventListener("resize", mark);
});
