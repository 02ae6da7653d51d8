// Runs before the page is drawn: the light or dark that somebody chose, so that nothing flashes.
(() => {
  const chosen = localStorage.getItem("standfast-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.classList.add(chosen);
})();
