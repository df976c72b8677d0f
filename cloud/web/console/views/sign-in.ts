// Signing in: a key or a client, sent once and forgotten by the page.
import { h, useSignal } from "#shared/web/dom.ts";
import type { Refused } from "../api.ts";
import { words } from "../language.ts";
import { Why } from "../parts.ts";
import { signIn, wasEnded } from "../state.ts";

const Field = ({ name, label, secret = false }: { name: string; label: string; secret?: boolean }) =>
  h(
    "label",
    null,
    label,
    h("input", {
      name,
      type: secret ? "password" : "text",
      required: true,
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: false,
    }),
  );

export function SignIn() {
  const way = useSignal<"key" | "client">("key");
  const fault = useSignal<Refused | undefined>(undefined);
  const going = useSignal(false);
  const { signIn: texts } = words();
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    if (going.value) return;
    const fields = [...new FormData(event.currentTarget as HTMLFormElement)].filter(([name]) => name !== "way");
    const given = Object.fromEntries(fields.map(([name, value]) => [name, typeof value === "string" ? value.trim() : ""]));
    [going.value, fault.value] = [true, undefined];
    fault.value = await signIn(given);
    going.value = false;
  }
  const choice = (value: "key" | "client", text: string) =>
    h(
      "label",
      { class: "choice" },
      h("input", { type: "radio", name: "way", value, checked: way.value === value, onChange: () => (way.value = value) }),
      text,
    );
  return h(
    "form",
    { class: "card sign-in", onSubmit: (event: SubmitEvent) => void submit(event) },
    h("h1", { tabIndex: -1 }, texts.title),
    wasEnded.value && h("p", { class: "notice warn", role: "status" }, texts.over),
    h("p", { class: "quiet" }, texts.lead),
    h("fieldset", null, h("legend", null, texts.with), choice("key", texts.key), choice("client", texts.client)),
    way.value === "key"
      ? h(Field, { key: "key", name: "key", label: texts.key, secret: true })
      : [
          h(Field, { key: "id", name: "client_id", label: texts.clientId }),
          h(Field, { key: "secret", name: "client_secret", label: texts.clientSecret, secret: true }),
        ],
    h(
      "div",
      { role: "alert" },
      fault.value && h("p", { class: "notice bad" }, h("strong", null, texts.failed), " ", h(Why, { refused: fault.value })),
    ),
    h("button", { type: "submit", class: "primary", "aria-disabled": going.value || undefined }, going.value ? texts.going : texts.go),
  );
}
