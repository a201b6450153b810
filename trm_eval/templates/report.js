for (const head of document.querySelectorAll("th button")) head.onclick = () => {
  const cell = head.parentElement, body = cell.closest("table").tBodies[0], column = cell.cellIndex;
  const up = cell.getAttribute("aria-sort") !== "ascending";
  for (const other of cell.parentElement.cells) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = row => row.cells[column].textContent, number = text => parseFloat(text.replace(/,/g, ""));
  [...body.rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)], [m, n] = [number(x), number(y)];
    const order = isNaN(m) || isNaN(n) ? x.localeCompare(y, "en", { numeric: true }) : m - n;
    return (up ? 1 : -1) * order;
  }).forEach(row => body.append(row));
};
