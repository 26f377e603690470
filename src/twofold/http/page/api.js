// The service, asked with the token of this tab. What fails is one sentence, with what to do.

const KEY = "twofold-token";

export class Failure extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const headers = () => {
  const token = sessionStorage.getItem(KEY);
  return token ? { Authorization: `Bearer ${token}` } : {};
};

let asking = null;

/** Asks for a token; settles when one was given. */
function login(sentence) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("login");
    const field = document.getElementById("token");
    document.getElementById("login-problem").textContent = sessionStorage.getItem(KEY) ? sentence : "";
    field.value = "";
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, field.value.trim());
      asking = null;
      resolve();
    }, { once: true });
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.showModal();
  });
  return asking;
}

async function sentence(answer) {
  try {
    return (await answer.json()).detail ?? `the service answered ${answer.status}`;
  } catch {
    return `the service answered ${answer.status}; see its log`;
  }
}

/** The answer to a request. Throws Failure; an aborted one throws AbortError. */
export async function ask(path, { method = "GET", json, body, signal } = {}) {
  let answer;
  try {
    const type = json === undefined ? {} : { "Content-Type": "application/json" };
    const content = json === undefined ? body : JSON.stringify(json);
    answer = await fetch(path, { method, body: content, headers: { ...headers(), ...type }, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The service does not answer. Start it with: twofold serve, and try again.", 0);
  }
  if (answer.status === 401) {
    await login(await sentence(answer));
    return ask(path, { method, json, body, signal });
  }
  if (!answer.ok) throw new Failure(await sentence(answer), answer.status);
  return answer;
}

export const get = async (path, options) => (await ask(path, options)).json();
export const send = async (method, path, json) => (await ask(path, { method, json })).json();

/** A path with those parameters that have a value. */
export function at(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** Every item of a list that comes in pages, up to `most`. */
export async function all(path, parameters, most = 100000) {
  const items = [];
  let after = null;
  do {
    const page = await get(at(path, { ...parameters, limit: 200, after }));
    items.push(...page.items);
    after = page.next;
  } while (after && items.length < most);
  return items;
}

/** Sends a file, telling how much of it is over (0 to 1), and then what the service does with it. */
export function upload(path, file, tell, follow) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    request.setRequestHeader("Accept", "application/x-ndjson");
    const lines = () => request.responseText.trimEnd().split("\n");
    request.addEventListener("progress", () => {
      try {
        const line = JSON.parse(lines().at(-1));
        if (line.stage) follow(line.stage, line.messages);
      } catch { /* half a line: the rest comes */ }
    });
    request.upload.addEventListener("progress", (event) => event.lengthComputable && tell(event.loaded / event.total));
    request.addEventListener("load", async () => {
      let answer = {};
      try {
        answer = JSON.parse(lines().at(-1));
      } catch { /* told below */ }
      if (request.status === 401) {
        await login(answer.detail);
        resolve(upload(path, file, tell, follow));
      } else if (answer.done) resolve(answer.done);
      else if (answer.problem) reject(new Failure(answer.problem.detail, answer.problem.status));
      else reject(new Failure(answer.detail ?? `the service answered ${request.status}; see its log`, request.status));
    });
    request.addEventListener("error", () => reject(new Failure("The service went away meanwhile. Import the file again: what is stored already is not stored twice.", 0)));
    request.send(file);
  });
}

/** Saves an answer as a file. */
export async function download(path, name) {
  const blob = await (await ask(path)).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
