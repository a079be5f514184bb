// The copy button of a terminal's block copies the commands after its prompts, $ and #, without the prompts and the output.
// This runs before the theme's own listener, which copies `data-clipboard-text` if the button has it.
document.addEventListener(
  "click",
  (event) => {
    const button = event.target instanceof Element && event.target.closest("button[data-clipboard-target]");
    const code = button && document.querySelector(button.dataset.clipboardTarget);
    if (!code || !code.closest(".language-console")) return;
    const commands = code.textContent.split("\n").filter((line) => /^[$#] ./.test(line));
    if (commands.length) button.dataset.clipboardText = commands.map((line) => line.slice(2)).join("\n");
  },
  true,
);
