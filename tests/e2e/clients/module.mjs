// Looks at TypeScript modules of a gateway with the real compiler and prints what it found as one line of JSON.
//
//     module.mjs EMPTY FILE…
//
// EMPTY is the module without tools. Each FILE must parse, must hold its statements, then declarations of types, then `tools` with functions that
// return one call, and nothing else; and all of them must pass under --strict, alone and with every stricter option there is.

import { readFileSync } from "node:fs";
import ts from "typescript";

const [empty, ...files] = process.argv.slice(2);
const target = ts.ScriptTarget.ES2022;
const parse = (file) => ts.createSourceFile(file, readFileSync(file, "utf8"), target, true);

const faults = [];
const always = parse(empty).statements.slice(0, -1).map((statement) => statement.getText());
let statements = 0;
let functions = 0;

function fault(file, node, what) {
  if (faults.length < 20) faults.push(`${file}: ${what}: ${node.getText().slice(0, 200)}`);
}

const name = /^[A-Za-z0-9_$]+$/;

// `async createIssue(params: P): Promise<R> { return call<R>("/tools/…", "github", params); }`
function isCall(method) {
  const inside = method.body?.statements;
  const call = inside?.length === 1 && ts.isReturnStatement(inside[0]) && inside[0].expression;
  return (
    ts.isMethodDeclaration(method) && name.test(method.name.text) && method.parameters.length === 1 &&
    call && ts.isCallExpression(call) && call.expression.getText() === "call" && call.arguments.length === 3 &&
    ts.isStringLiteral(call.arguments[0]) && call.arguments[0].text.startsWith("/tools/") &&
    (ts.isStringLiteral(call.arguments[1]) || call.arguments[1].kind === ts.SyntaxKind.NullKeyword) &&
    call.arguments[2].getText() === "params"
  );
}

for (const file of files) {
  const source = parse(file);
  for (const found of source.parseDiagnostics) faults.push(`${file}: ${ts.flattenDiagnosticMessageText(found.messageText, " ")} at ${found.start}`);
  const own = source.statements.slice(always.length);
  source.statements.slice(0, always.length).forEach((statement, at) => {
    if (statement.getText() !== always[at]) fault(file, statement, "not the statement that always stands here");
  });
  statements += own.length;
  const tools = own.pop();
  for (const statement of own) {
    const isType = ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement);
    if (!isType || !name.test(statement.name.text)) fault(file, statement, "not a declaration of a type");
  }
  const declared = tools && ts.isVariableStatement(tools) && tools.declarationList.declarations;
  if (declared?.length !== 1 || declared[0].name.text !== "tools" || !ts.isObjectLiteralExpression(declared[0].initializer)) {
    fault(file, tools ?? source, "not the tools");
    continue;
  }
  for (const namespace of declared[0].initializer.properties) {
    if (!ts.isPropertyAssignment(namespace) || !name.test(namespace.name.text) || !ts.isObjectLiteralExpression(namespace.initializer)) {
      fault(file, namespace, "not a namespace");
      continue;
    }
    for (const method of namespace.initializer.properties) {
      if (!isCall(method)) fault(file, method, "not a function that calls a tool");
      functions += 1;
    }
  }
}

// Without the types of a browser or of Node, and with every option that finds fault.
const strict = { strict: true, noEmit: true, target, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, types: [] };
const stricter = {
  ...strict, lib: ["lib.es2022.d.ts"], allowImportingTsExtensions: true, erasableSyntaxOnly: true, exactOptionalPropertyTypes: true, isolatedModules: true,
  noFallthroughCasesInSwitch: true, noImplicitOverride: true, noImplicitReturns: true, noPropertyAccessFromIndexSignature: true,
  noUncheckedIndexedAccess: true, noUnusedLocals: true, noUnusedParameters: true, verbatimModuleSyntax: true,
};
for (const options of [strict, stricter]) {
  const program = ts.createProgram(files, options);
  for (const found of ts.getPreEmitDiagnostics(program).slice(0, 20)) {
    const place = found.file ? `${found.file.fileName}:${found.file.getLineAndCharacterOfPosition(found.start).line + 1}` : "options";
    faults.push(`${place}: TS${found.code} ${ts.flattenDiagnosticMessageText(found.messageText, " ")}`);
  }
  // The second time round takes as long: one is enough where there is nothing to tell between them.
  if (faults.length > 0) break;
}
console.log(JSON.stringify({ version: ts.version, statements, functions, faults: faults.slice(0, 20) }));
