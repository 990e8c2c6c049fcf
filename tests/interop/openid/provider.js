// A certified OpenID provider, with one public client and one person, who signs in without a password.
// Usage: node provider.js PORT. It writes "ready" once it listens. POST /approve?user_code=CODE signs in, as the person
// would in a browser; POST /rotate has new keys from then on.
import { generateKeyPairSync } from 'node:crypto';
import http from 'node:http';
import Provider from 'oidc-provider';

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const seconds = Number(process.argv[3] ?? 600);

const claims = {
  preferred_username: 'alice', email: 'alice@example.com', email_verified: true, groups: ['devs', 'staff'],
};

const key = (kid) => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' };
};

let generation = 1;

const make = (keys) => new Provider(issuer, {
  clients: [{
    client_id: 'archon-cli',
    application_type: 'native',
    token_endpoint_auth_method: 'none',
    grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
    response_types: [],
    redirect_uris: [],
  }],
  jwks: { keys },
  cookies: { keys: ['a secret of tests'] },
  conformIdTokenClaims: false,
  claims: { openid: ['sub'], profile: ['preferred_username'], email: ['email', 'email_verified'], groups: ['groups'] },
  scopes: ['openid', 'profile', 'email', 'groups', 'offline_access'],
  ttl: { IdToken: () => seconds, AccessToken: () => seconds },
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...claims }) }),
  features: {
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
    devInteractions: { enabled: false },
  },
});

let keys = [key('key-1')];
let provider = make(keys);

// As the pages of a sign-in do in a browser, in one step.
const approve = async (userCode) => {
  const code = await provider.DeviceCode.findByUserCode(userCode.replaceAll('-', ''), { ignoreExpiration: true });
  const grant = new provider.Grant({ accountId: 'f3a1', clientId: code.clientId });
  grant.addOIDCScope(code.params.scope);
  Object.assign(code, {
    accountId: 'f3a1', grantId: await grant.save(), scope: code.params.scope, authTime: Math.floor(Date.now() / 1000),
  });
  await code.save();
};

http.createServer(async (request, response) => {
  const url = new URL(request.url, issuer);
  if (url.pathname === '/approve') {
    await approve(url.searchParams.get('user_code'));
    response.end('{}');
  } else if (url.pathname === '/rotate') {
    keys = [key(`key-${generation += 1}`)];
    provider = make(keys);
    response.end('{}');
  } else {
    provider.callback()(request, response);
  }
}).listen(port, '127.0.0.1', () => console.log('ready'));
