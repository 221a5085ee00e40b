// The provider of npm's oidc-provider: PORT, CALLBACK, CLIENT_SECRET. Whoever signs in is in the group "editors".
import { pathToFileURL } from 'node:url';

const [modules, port, callback, secret] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(`${modules}/oidc-provider/lib/index.js`));
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: 'hone', client_secret: secret, redirect_uris: [callback] }],
  scopes: ['openid', 'email', 'groups'],
  claims: { openid: ['sub'], email: ['email'], groups: ['groups'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.com`, groups: id === 'ann' ? ['editors'] : [] }),
  }),
  features: { devInteractions: { enabled: true } },
  pkce: { required: () => true },
});
provider.listen(Number(port), '127.0.0.1');
