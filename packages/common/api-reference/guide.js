// The samples call the address that this page was served from.
const samples = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
while (samples.nextNode()) {
	samples.currentNode.data = samples.currentNode.data.replaceAll('http://127.0.0.1:3000', location.origin);
}
