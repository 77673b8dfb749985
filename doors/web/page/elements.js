// Elements of the page, and texts of sizes, times and errors.

export function element(name, fields = {}, ...children) {
  const made = Object.assign(document.createElement(name), fields);
  made.append(...children);
  return made;
}

export const ms = (time) => (time < 10 ? time.toFixed(1) : time.toFixed(0)) + " ms";
export const bytes = (n) => (n < 1000 ? `${n} bytes` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`);

export function failed(article, error) {
  const where = [error.operator && `operator ${error.operator}`, error.node && `node ${error.node}`].filter(Boolean).join(", ");
  article.append(element("p", { className: "wrong" }, error.message));
  if (where) article.append(element("p", { className: "quiet" }, where));
}
