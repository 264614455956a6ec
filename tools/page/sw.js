// Keeps every file of this page, so that it works offline after the first load. A new build has a new name for them.
const KEPT = "tfcalc-BUILD";

self.addEventListener("install", (event) => {
  event.waitUntil(
    (async () => {
      const manifest = await (await fetch("manifest.json", { cache: "no-cache" })).json();
      await (await caches.open(KEPT)).addAll(["./", ...manifest.files]);
      await self.skipWaiting();
    })(),
  );
});

self.addEventListener("activate", (event) => {
  event.waitUntil(
    (async () => {
      for (const name of await caches.keys()) {
        if (name.startsWith("tfcalc-") && name !== KEPT) await caches.delete(name);
      }
      await self.clients.claim();
    })(),
  );
});

self.addEventListener("fetch", (event) => {
  if (event.request.method !== "GET" || new URL(event.request.url).origin !== self.location.origin) return;
  event.respondWith(
    (async () => (await caches.match(event.request, { cacheName: KEPT, ignoreSearch: true })) ?? fetch(event.request))(),
  );
});
