var p=/[\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,t=(n,e)=>(JSON.stringify(n,null,e)??"").replace(p,r=>`\\u${r.charCodeAt(0).toString(16).padStart(4,"0")}`);function $(n,e){return`curl -sS ${m(`${n}/v1/refinements`)} \\
  -H 'Content-Type: application/json' \\
  \${HONE_API_KEY:+-H "Authorization: Bearer $HONE_API_KEY"} \\
  --data-binary @- <<'JSON'
${t(e,2)}
JSON
`}var m=n=>`'${n.replaceAll("'","'\\''")}'`;function h(n,e){return`from hone import Hone

with Hone(${t(n)}) as hone:  # the key is that of HONE_API_KEY
    refinement = hone.request("POST", "/v1/refinements", json=${s(e,4)})
    print(refinement["id"])
    print(hone.wait(refinement["id"]).result.draft)
`}function s(n,e){let r=" ".repeat(e+4),i=" ".repeat(e);if(n==null)return"None";if(typeof n=="boolean")return n?"True":"False";if(typeof n!="object")return t(n);let f=Array.isArray(n)?n.map(o=>s(o,e+4)):Object.entries(n).map(([o,c])=>`${t(o)}: ${s(c,e+4)}`),[u,a]=Array.isArray(n)?"[]":"{}";return f.length?`${u}
${f.map(o=>`${r}${o},
`).join("")}${i}${a}`:`${u}${a}`}function g(n,e){let{draft:r=null,...i}=e;return`import { Hone } from 'hone-client';

const hone = new Hone({ url: ${t(n)} }); // the key is that of HONE_API_KEY
const draft = ${t(r)};
const refinement = await hone.submit(draft, ${t(i,2)});
console.log(refinement.id);
console.log((await hone.wait(refinement)).result?.draft);
`}export{t as a,$ as b,h as c,g as d};
