/// <reference types="vitest/config" />
import { defineConfig } from "vite";

// The page is served below /console/ by Parley itself; `static` is package data of `parley.console`.
export default defineConfig({
  base: "/console/",
  // The classic form is shorter by a kilobyte: children are arguments, and not a member of the properties.
  oxc: {
    jsx: { runtime: "classic", development: false, pragma: "createVNode", pragmaFrag: "VFragment" },
    jsxInject: 'import { h as createVNode, Fragment as VFragment } from "preact"',
  },
  build: {
    outDir: "../src/parley/console/static",
    emptyOutDir: true,
    target: "es2022",
    // Browsers with light-dark(), which would be taken apart for older ones.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    modulePreload: false,
    assetsInlineLimit: 0,
  },
  server: { proxy: { "^/(?!console/(src|@|node_modules|index.html)|@)": "http://127.0.0.1:8080" } },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"] },
});
