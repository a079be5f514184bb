// Unpacks the Chromium of the npm package into the folder `browser`, with the libraries and fonts that a bare machine lacks.
// The package itself unpacks into the folder for temporary files, which another user may have written to.
import { createReadStream, createWriteStream, chmodSync, mkdirSync } from "node:fs";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";
import { spawn } from "node:child_process";

const packed = new URL("node_modules/@sparticuz/chromium/bin/", import.meta.url).pathname;
const folder = new URL("browser/", import.meta.url).pathname;
mkdirSync(folder, { recursive: true });

await pipeline(createReadStream(`${packed}chromium.br`), createBrotliDecompress(), createWriteStream(`${folder}chromium`));
chmodSync(`${folder}chromium`, 0o755);
for (const name of ["al2023", "fonts", "swiftshader"]) {
  const target = name === "swiftshader" ? folder : `${folder}${name}`;
  mkdirSync(target, { recursive: true });
  const tar = spawn("tar", ["-x", "-C", target], { stdio: ["pipe", "inherit", "inherit"] });
  const ended = new Promise((resolve, reject) =>
    tar.on("close", (code) => (code === 0 ? resolve() : reject(new Error(`tar of ${name} ended with ${code}`)))),
  );
  await pipeline(createReadStream(`${packed}${name}.tar.br`), createBrotliDecompress(), tar.stdin);
  await ended;
}
