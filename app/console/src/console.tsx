import './console.css';
import { render } from 'preact';
import { isLinkBroken } from './api.js';
import { BrokenLink, Console } from './frame.js';

render(isLinkBroken ? <BrokenLink /> : <Console />, document.body);
