// Unpacks the Chromium of the npm package into the folder `browser`, with the libraries and fonts that a bare machine lacks.
// The package itself unpacks into the folder for temporary files, which another user may have written to.
import { execFileSync } from "node:child_process";
import { createReadStream, createWriteStream, chmodSync, mkdirSync, rmSync } from "node:fs";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";

const packed = new URL("node_modules/@sparticuz/chromium/bin/", import.meta.url).pathname;
const folder = new URL("browser/", import.meta.url).pathname;
mkdirSync(folder, { recursive: true });

const decompress = (name, target) =>
  pipeline(createReadStream(`${packed}${name}.br`), createBrotliDecompress(), createWriteStream(target));

await decompress("chromium", `${folder}chromium`);
chmodSync(`${folder}chromium`, 0o755);
for (const name of ["al2023", "fonts", "swiftshader"]) {
  const target = name === "swiftshader" ? folder : `${folder}${name}`;
  mkdirSync(target, { recursive: true });
  // By way of a file: tar may close a pipe before it has read the padding at the end of an archive.
  const archive = `${folder}${name}.tar`;
  await decompress(`${name}.tar`, archive);
  execFileSync("tar", ["-x", "-f", archive, "-C", target], { stdio: "inherit" });
  rmSync(archive);
}
