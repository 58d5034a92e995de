// Sends a plugin's file in pieces, so that a large one needs no large request, and shows the progress.
(() => {
  "use strict";
  const form = document.getElementById("plugin-upload");
  if (!form) return;
  const state = document.getElementById("plugin-upload-state");
  const button = form.querySelector("button");
  const headers = { "Content-Type": "application/json", ...JSON.parse(document.body.getAttribute("hx-headers")) };

  const post = async (address, body) => {
    const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) }).catch(() => {
      throw new Error("The server does not answer. When it does, send the file again.");
    });
    // A proxy's own pages are not JSON: they tell of a size limit, a timeout or a server that is away.
    const told = await answer.json().catch(() => null);
    if (!answer.ok || !told) {
      throw new Error(told?.detail ?? `The answer's status is ${answer.status}, and it is not Ringfence's. Send the file again.`);
    }
    return told;
  };
  const digest = async (file) => {
    if (!window.crypto?.subtle) {
      throw new Error("The browser computes a SHA-256 over https or on localhost only. Use https, or ringfence plugins deploy.");
    }
    const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  };
  const encode = (blob) => new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
  const send = async (file) => {
    if (file.size > Number(form.dataset.most)) throw new Error("The file is too large.");
    state.textContent = "Computing its SHA-256 …";
    const asked = { plugin: file.name, size: file.size, sha256: await digest(file) };
    const { id } = await post("/api/v1/plugin-installations", asked);
    const size = Number(form.dataset.piece);
    for (let start = 0; start < file.size; start += size) {
      state.textContent = `Sending: ${Math.floor((100 * start) / file.size)} %`;
      const content = await encode(file.slice(start, start + size));
      await post(`/api/v1/plugin-installations/${id}/bytes`, { start, content });
    }
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    state.classList.remove("bad-text");
    try {
      await send(document.getElementById("plugin-file").files[0]);
      state.textContent = "Sent. The workers install it.";
      form.reset();
    } catch (error) {
      state.textContent = error.message;
      state.classList.add("bad-text");
    }
    button.disabled = false;
    document.body.dispatchEvent(new CustomEvent("ringfence-refresh"));
  });
})();
