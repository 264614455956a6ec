// Runs tfcalc: loads Pyodide and the wheels once, then answers one question after the other.
// What it is asked and what it answers is text that it does not look into.

let page = null;

async function load(base) {
  const manifest = await (await fetch(new URL("manifest.json", base))).json();
  const archives = manifest.archives.map(async ({ file, format }) => ({
    format,
    bytes: await (await fetch(new URL(file, base))).arrayBuffer(),
  }));
  const { loadPyodide } = await import(new URL("pyodide/pyodide.mjs", base).href);
  const pyodide = await loadPyodide({ indexURL: new URL("pyodide/", base).href });
  for (const { bytes, format } of await Promise.all(archives)) {
    pyodide.unpackArchive(bytes, format, { extractDir: manifest.folder });
  }
  pyodide.runPython(`import sys; sys.path.insert(0, "${manifest.folder}")`);
  page = pyodide.pyimport("tfcalc.page.ask");
  return page.begin();
}

self.onmessage = async ({ data }) => {
  const { id, call, args } = data;
  const since = performance.now();
  try {
    const found = call === "load" ? await load(args[0]) : page[call](...args);
    self.postMessage({ id, found, took: performance.now() - since });
  } catch (error) {
    self.postMessage({ id, failed: String(error) });
  }
};
self.postMessage({ id: 0 });
