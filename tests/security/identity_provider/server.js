// A certified OpenID provider for the tests. Anybody logs in with any password; PEOPLE, a file, says who they are.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { exportJWK, generateKeyPair } from "jose";
import Provider from "oidc-provider";

const { PORT, PUBLIC_URL, CLIENT_SECRET, PEOPLE } = process.env;
const { privateKey } = await generateKeyPair("RS256", { extractable: true });
const key = { ...(await exportJWK(privateKey)), kid: randomUUID(), use: "sig", alg: "RS256" };

const provider = new Provider(`http://127.0.0.1:${PORT}`, {
  clients: [
    {
      client_id: "ringfence",
      client_secret: CLIENT_SECRET,
      redirect_uris: [`${PUBLIC_URL}/ui/login/sso/callback`],
      post_logout_redirect_uris: [`${PUBLIC_URL}/ui/login`],
      backchannel_logout_uri: `${PUBLIC_URL}/ui/login/sso/logout`,
      backchannel_logout_session_required: true,
    },
  ],
  jwks: { keys: [key] },
  cookies: { keys: [randomUUID()] },
  features: { backchannelLogout: { enabled: true } },
  // Without its guard against addresses of this machine, where the tests' web process is.
  fetch: (url, { dispatcher, ...options }) => globalThis.fetch(url, options),
  pkce: { required: () => true },
  claims: { openid: ["sub"], profile: ["preferred_username", "groups"], email: ["email", "email_verified"] },
  async findAccount(_, login) {
    const people = JSON.parse(readFileSync(PEOPLE, "utf8"));
    return { accountId: login, claims: () => ({ sub: login, ...people[login] }) };
  },
});
provider.on("backchannel.error", (_, error) => console.log("back-channel logout:", error.message, error.cause));
provider.listen(Number(PORT), "127.0.0.1", () => console.log("listening"));
