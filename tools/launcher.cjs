#!/usr/bin/env node
/*
 * The command `leat` of the package. It checks the version of Node, and starts services with flags that
 * bound their memory. In the syntax of ES5: an old Node must get as far as the message.
 */
'use strict';

var path = require('path');

var majorMin = 26;
/* Commands that run until a signal. */
var services = ['start', 'serve', 'messages', 'dev'];
var flags = ['--max-semi-space-size=16', '--v8-pool-size=0'];

var program = path.join(__dirname, '..', 'lib', 'main.js');
var words = process.argv.slice(2);

/* Services start the launcher a second time: the program finds `leat` of the search path in the arguments. */
var hasFlags = process.execArgv.indexOf(flags[0]) !== -1;

if (parseInt(process.versions.node, 10) < majorMin) refuse();
else if (hasFlags || services.indexOf(words[0]) === -1) require(program);
else if (process.platform === 'win32' || !process.execve) runAsChild();
else process.execve(process.execPath, [process.execPath].concat(nodeArguments()), process.env);

function refuse() {
  var found = process.versions.node + ' (' + process.execPath + ')';
  var text = [
    'Leat needs Node ' + majorMin + ' or newer, this is ' + found + ':',
    'install Node ' + majorMin + ' and then Leat again with the npm of that Node,',
    'or use the single executable of Leat, which needs no Node.',
  ];
  console.error(text.join(' '));
  process.exitCode = 1;
}

/* Flags that the caller gave to Node come last, so they win. */
function nodeArguments() {
  return flags.concat(process.execArgv, __filename, words);
}

/* Windows cannot replace a process. There the console sends Ctrl-C to the child as well. */
function runAsChild() {
  var child = require('child_process').spawn(process.execPath, nodeArguments(), {
    stdio: 'inherit',
  });
  process.on('SIGINT', function () {
    if (process.platform !== 'win32') child.kill('SIGINT');
  });
  process.on('SIGTERM', function () {
    child.kill('SIGTERM');
  });
  child.on('error', function (error) {
    throw error;
  });
  child.on('exit', function (code, signal) {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}
