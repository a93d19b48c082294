// The API reference uses one file of this package, which runs in browsers and contains what it needs. Without this, 300
// packages would be installed that nothing imports.
function readPackage(manifest) {
	if (manifest.name === '@scalar/api-reference') {
		manifest.dependencies = {};
		// Of those packages: the file itself does not run in Node.js.
		delete manifest.engines;
	}
	return manifest;
}

module.exports = { hooks: { readPackage } };
