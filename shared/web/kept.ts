// What a page keeps in its browser. Where cookies are blocked, even asking for that place is refused: then it is kept for as long as the page stands.
type Kept = Pick<Storage, "getItem" | "setItem" | "removeItem">;

function inThisPage(): Kept {
  const kept = new Map<string, string>();
  return {
    getItem: (name) => kept.get(name) ?? null,
    setItem: (name, value) => void kept.set(name, value),
    removeItem: (name) => void kept.delete(name),
  };
}
function placeOf(name: "localStorage" | "sessionStorage"): Kept {
  try {
    return globalThis[name] ?? inThisPage(); // none in an app's frame that wasn't told to have one
  } catch {
    return inThisPage();
  }
}
export const inBrowser = placeOf("localStorage");
export const inTab = placeOf("sessionStorage");
